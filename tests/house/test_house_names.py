"""Names in launcher/: one class and one file for each, and docstrings that open plainly."""

from collections import defaultdict

from sources import sources

SHARED_FILE_NAMES = {
    "__init__": "Python names them",
    "__main__": "Python names them: `python -m` of a package",
    "base": "each set of kinds may have its base class, which nobody reads apart from its folder",
    "registry": "each set of kinds may list them, in its own folder",
}

# A docstring that opens so is half a sentence: "Of the first stage.", "Whether it has ended."
RELATIVE_WORDS = {"Of", "That", "Whether", "What", "How", "Where", "Who"}


def repeated(places_of):
    return {name: places for name, places in places_of.items() if len(places) > 1}


def shared_class_names():
    places_of = defaultdict(list)
    for module, (_, source) in sources("launcher").items():
        for name, line in source.classes.items():
            places_of[name].append(f"{module}:{line}")
    return repeated(places_of)


def shared_file_names():
    places_of = defaultdict(list)
    for module, (path, _) in sources("launcher").items():
        if path.stem not in SHARED_FILE_NAMES:
            places_of[path.stem].append(module)
    return repeated(places_of)


def relative_openings():
    return [
        f"{module}:{line}: {opening}"
        for module, (_, source) in sources("launcher").items()
        for line, opening in source.docstrings
        if opening.split()[0].strip(",.:;") in RELATIVE_WORDS
    ]


def share_of_signatures_with_any():
    """`Any` switches type checks off; Mapping[str, Any] is counted."""
    functions = [
        names for _, source in sources("launcher").values() for names in source.annotations
    ]
    return sum("Any" in names for names in functions) / len(functions)


def test_classes_files_and_docstrings_keep_the_rules_of_names():
    assert (shared_class_names(), shared_file_names(), relative_openings()) == ({}, {}, [])


def test_fewer_than_one_function_in_ten_has_any_in_its_signature():
    assert share_of_signatures_with_any() < 1 / 10
