// Search and order of the features; without it those that drift are the first, the others as in the data.
const list = document.querySelector(".features"), cards = [...list.children];
const [search, order, shown] = ["search", "order", "shown"].map((id) => document.getElementById(id));
const nameOf = (card) => card.querySelector("h3").firstChild.textContent;
function arrange() {
  const words = search.value.toLowerCase(), key = order.value;
  const compare = key === "name" ? (a, b) => nameOf(a).localeCompare(nameOf(b))
    : (a, b) => b.dataset[key] - a.dataset[key];
  for (const card of cards) card.hidden = !nameOf(card).toLowerCase().includes(words);
  list.append(...(key ? [...cards].sort(compare) : cards));
  shown.textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} features`;
}
for (const control of [search, order]) control.addEventListener("input", arrange);
document.querySelector(".controls span").hidden = false;
arrange();
