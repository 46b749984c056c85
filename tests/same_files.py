"""Two folders, byte by byte."""

import filecmp


def different_files(first, second):
    """Names of files that are not the same in both folders."""
    names = {path.relative_to(folder) for folder in (first, second) for path in folder.rglob("*") if path.is_file()}
    _, different, missing = filecmp.cmpfiles(first, second, sorted(map(str, names)), shallow=False)
    return [*different, *missing]
