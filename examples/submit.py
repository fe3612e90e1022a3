"""Run a recipe inside spark-submit: `spark-submit examples/submit.py RECIPE CORPUS`."""

import sys

import gristmill


def main() -> None:
    """Run it; print how many documents were kept."""
    recipe, corpus = sys.argv[1:]
    print(gristmill.run(recipe, out=corpus, engine="spark"))


if __name__ == "__main__":
    main()
