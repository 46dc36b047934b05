"""The Trainyard distribution: what replicas, pipeline steps and Dataflow workers install."""

from setuptools import find_packages, setup

setup(
    name="trainyard",
    version="0.1.0",
    description="One DAG from raw data to a served, versioned model, on Vertex AI or a laptop.",
    license="Apache-2.0",
    classifiers=[
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["pipelines*", "components*", "trainer*", "vertex_local*"]),
    package_data={"": ["*.html", "*.css", "*.js", "*.yaml"]},
    install_requires=[
        "apache-beam[gcp]==2.77.0",
        "cronsim",
        "google-cloud-bigquery",
        "google-cloud-storage",
        "google-crc32c",
        "google-cloud-aiplatform>=1.165,<2",
        "google-cloud-pipeline-components==2.22.0",
        "httptools",
        "keras==3.15.1",
        "kfp==2.17.0",
        "numpy",
        "orjson",
        "pillow",
        "pyarrow",
        "rich",
        "tenacity",
        "tensorboard",
        "tensorflow==2.21.0",
        "tensorflow-metadata==1.21.0",
        "tzdata",
        "waitress",
        "werkzeug",
    ],
    extras_require={
        "bench": ["fastapi", "flask", "matplotlib", "scikit-learn", "uvicorn[standard]"],
        "dev": [
            "google-cloud-logging",
            "import-linter",
            "mypy",
            "pre-commit",
            "psutil",
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
            "setuptools>=77",
            "types-psutil",
            "types-PyYAML",
            "types-requests",
        ],
        "gpu": ["tensorflow[and-cuda]==2.21.0"],
    },
    entry_points={
        "console_scripts": [
            "trainyard=pipelines.cli:main",
            "vertex-local=vertex_local.cli:main",
        ]
    },
)
