"""Which files of the source folder travel with a job."""

import os

import pytest

from launcher.client.request import SourceTree
from launcher.client.spec import JobSpec
from launcher.errors import SpecError


def packed(source):
    return [file.path for file in SourceTree(source.spec()).files]


@pytest.mark.parametrize(
    ("ignore_files", "behind", "kept"),
    [
        pytest.param({}, [".git/HEAD", "a/.git/HEAD"], ["a/b"], id="git repositories"),
        pytest.param({}, [".git"], [], id="a work tree's .git file"),
        pytest.param({}, ["env/pyvenv.cfg", "env/bin/x"], [], id="virtual environment"),
        pytest.param({}, ["env/conda-meta/h", "env/x"], [], id="conda environment"),
        pytest.param({}, ["a/__pycache__/m.pyc", "b.pyc"], ["a/m.py"], id="bytecode"),
        pytest.param({}, [".pytest_cache/x", ".mypy_cache/x"], [], id="caches"),
        pytest.param({".gitignore": "data/"}, ["data/x", "a/data/y"], ["b/data"], id="any folder"),
        pytest.param({".gitignore": "\ufeffdata/\n"}, ["data/x"], ["b"], id="a byte order mark"),
        pytest.param({".gitignore": "/data"}, ["data/x"], ["a/data/y"], id="anchored"),
        pytest.param({".gitignore": "*.png\n!k.png"}, ["a.png"], ["k.png"], id="negation"),
        pytest.param(
            {".gitignore": "*.csv", "a/.gitignore": "!b.csv"},
            ["c.csv"],
            ["a/b.csv"],
            id="a deeper file wins",
        ),
        pytest.param({"a/.gitignore": "/b"}, ["a/b"], ["b"], id="a deeper file is anchored there"),
        pytest.param({".gitignore": "a/\n!a/b"}, ["a/b"], [], id="ignored folders stay closed"),
        pytest.param(
            {".gitignore": "*.bin", ".launcherignore": "!w.bin"},
            ["v.bin"],
            ["w.bin"],
            id="launcherignore wins",
        ),
        pytest.param(
            {".launcherignore": "# note\n\nd/**/*.tmp"}, ["d/e/f.tmp"], ["d/g"], id="double star"
        ),
        pytest.param({".gitignore": "!.git"}, [".git/x"], [], id="no pattern brings .git back"),
    ],
)
def test_what_stays_behind(source, ignore_files, behind, kept):
    source.write_all({**ignore_files, **dict.fromkeys([*behind, *kept], "")})
    assert packed(source) == sorted([*ignore_files, *kept, "train.py"])


def test_ignore_files_of_the_surrounding_repository_apply(source):
    source.write_all({"train.py": "", "data/x": "", "y.log": ""})
    (source.root.parent / ".git").mkdir()
    (source.root.parent / ".gitignore").write_text("source/data/\n*.log\n")
    assert packed(source) == ["train.py"]


def test_a_folder_that_its_repository_ignores_can_be_a_source_folder(source):
    source.write_all({"train.py": "", "y.log": "", ".gitignore": "*.log"})
    (source.root.parent / ".git").mkdir()
    (source.root.parent / ".gitignore").write_text("source/\n")
    assert packed(source) == [".gitignore", "train.py"]


def test_an_ignore_file_above_without_a_repository_does_not_apply(source):
    (source.root.parent / ".gitignore").write_text("*.py\n")
    assert packed(source) == ["train.py"]


def test_without_a_source_folder_the_script_travels_alone(source):
    source.write(other="")
    spec = JobSpec(entry_point=str(source.root / "train.py"), instance_type="local")
    tree = SourceTree(spec)
    assert [file.path for file in tree.files] == ["train.py"]
    assert not tree.exists("other")


def test_the_rules_see_only_what_travels(source):
    source.write_all({"a/pipeline.py": "x = 1\n", "b.py": "", ".launcherignore": "b.py"})
    tree = SourceTree(source.spec())
    assert tree.exists("a/pipeline.py")
    assert tree.exists("./a/../train.py")
    assert tree.read_text("a/pipeline.py") == "x = 1\n"
    assert not tree.exists("b.py")
    assert not tree.exists("a")


@pytest.mark.parametrize(
    "line", ["!", "[z-a]", "*a" * 25 + "b", "a" * 5_000], ids=["none", "a range", "stars", "long"]
)
def test_a_line_that_is_no_pattern_is_refused_with_its_place(source, line):
    source.write_all({".launcherignore": f"# {'*' * 20}\nok\n{line}\n", "a" * 60: ""})
    with pytest.raises(SpecError, match="is no pattern of paths") as caught:
        packed(source)
    assert f"{source.root / '.launcherignore'}:3" in str(caught.value)


def test_stars_in_a_row_are_one(source):
    source.write_all({".launcherignore": "*" * 30 + "a", "b" * 60: "", "b" * 60 + "a": ""})
    assert packed(source) == [".launcherignore", "b" * 60, "train.py"]


# Links -----------------------------------------------------------------------------------------


def test_links_inside_the_folder_are_packed_as_what_they_point_at(source):
    source.write_all({"real/data.txt": "7"})
    (source.root / "copy.txt").symlink_to("real/data.txt")
    (source.root / "also").symlink_to("real")
    tree = SourceTree(source.spec())
    assert [file.path for file in tree.files] == [
        "also/data.txt",
        "copy.txt",
        "real/data.txt",
        "train.py",
    ]
    assert tree.read_text("also/data.txt") == tree.read_text("copy.txt") == "7"


def test_a_link_to_a_folder_above_it_is_not_followed_round(source):
    source.write_all({"a/b": ""})
    (source.root / "a" / "up").symlink_to("..")
    assert packed(source) == ["a/b", "train.py"]


def test_links_that_leave_the_folder_are_refused_all_at_once(source, tmp_path):
    (tmp_path / "secret").write_text("s")
    (source.root / "out").symlink_to(tmp_path / "secret")
    (source.root / "gone").symlink_to("nowhere")
    with pytest.raises(SpecError) as caught:
        packed(source)
    whats = sorted(problem.what for problem in caught.value.problems)
    assert len(whats) == 2
    assert "leaves the source folder" in whats[1]
    assert "points at nothing" in whats[0]
    assert all(".launcherignore" in problem.fix for problem in caught.value.problems)


def test_links_in_a_loop_are_refused_unless_they_are_ignored(source):
    (source.root / "loop").symlink_to("loop")
    with pytest.raises(SpecError, match=r"the link loop -> .* points at nothing"):
        packed(source)
    source.write_all({".launcherignore": "loop\n"})
    assert packed(source) == [".launcherignore", "train.py"]


def test_a_link_that_is_ignored_may_leave_the_folder(source, tmp_path):
    (source.root / "data").symlink_to(tmp_path)
    source.write_all({".launcherignore": "/data\n"})
    assert packed(source) == [".launcherignore", "train.py"]


def test_a_pipe_is_refused_unless_it_is_ignored(source):
    os.mkfifo(source.root / "pipe")
    with pytest.raises(SpecError, match="a pipe, a socket or a device cannot be sent"):
        packed(source)
    tree = SourceTree(source.spec(dependencies=[str(source.root / "pipe")]))
    with pytest.raises(SpecError, match=r"dependencies: .*pipe"):
        tree.exists("train.py")
    source.write_all({".launcherignore": "pipe\n"})
    assert packed(source) == [".launcherignore", "train.py"]


def test_a_source_folder_that_is_not_there_is_a_problem(source):
    spec = JobSpec(entry_point="train.py", source_dir="/nowhere/at/all", instance_type="local")
    with pytest.raises(SpecError, match="source_dir: /nowhere/at/all"):
        SourceTree(spec).exists("train.py")


# Dependencies ----------------------------------------------------------------------------------


def test_dependencies_travel_beside_the_source_under_their_last_names(source, tmp_path):
    more = type(source)(tmp_path / "elsewhere")
    more.write_all({"shared/a.py": "", "shared/deep/b.py": "", "shared/.git/x": "", "one.py": ""})
    spec = source.spec(dependencies=[str(more.root / "shared"), str(more.root / "one.py")])
    found = [file.path for file in SourceTree(spec).files]
    assert found == ["one.py", "shared/a.py", "shared/deep/b.py", "train.py"]


def test_dependencies_travel_with_a_script_alone(source, tmp_path):
    (tmp_path / "one.py").write_text("")
    spec = JobSpec(
        entry_point=str(source.root / "train.py"),
        instance_type="local",
        dependencies=[str(tmp_path / "one.py")],
    )
    assert [file.path for file in SourceTree(spec).files] == ["one.py", "train.py"]


def test_dependencies_hide_nothing_and_exist(source, tmp_path):
    (tmp_path / "train.py").write_text("")
    spec = source.spec(dependencies=[str(tmp_path / "train.py"), str(tmp_path / "absent")])
    with pytest.raises(SpecError) as caught:
        _ = SourceTree(spec).files
    assert [problem.what for problem in caught.value.problems] == [
        '"train.py" is in the code already',
        "there is no such file or folder",
    ]
