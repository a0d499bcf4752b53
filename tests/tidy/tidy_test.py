"""Tests of the checker itself: each rule has samples that pass and samples that fail, in one table."""

from pathlib import Path
import subprocess
import sys
import unittest

sys.path.insert(0, str(Path(__file__).parent))

import cpp_text
from source_tree import Tree
import tidy

STORY = "// A file with a story long enough to be one.\n"
PY_STORY = '"""A module with a story long enough to be one."""\n'
CMAKE = "file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)\nadd_library(x STATIC ${sources})\n"
TEST_CMAKE = "tandem_test_folder(x)\nfile(GLOB_RECURSE s ${folder}/*_test.cpp)\n"
NOTE = "TO" + "DO"


def long_function(lines, head="int f() {"):
    return STORY + head + "\n" + "  g();\n" * (lines - 2) + "}\n"


def rules_broken(texts):
    folders = {path.split("/", 1)[0] for path in texts if "/" in path}
    surroundings = {f"{folder}/README.md": "What lives here.\n" for folder in folders}
    surroundings |= {f"{folder}/CMakeLists.txt": CMAKE for folder in folders}
    return {finding.rule for finding in tidy.check(Tree.from_texts({**surroundings, **texts}))}


# rule, files that break it, files that keep it
CASES = [
    ("layers", {"gpu/a.cpp": STORY + '#include "actors/b.hpp"\n', "actors/b.hpp": STORY + "#pragma once\n"},
     {"actors/a.cpp": STORY + '#include "gpu/b.hpp"\n', "gpu/b.hpp": STORY + "#pragma once\n"}),
    ("layers", {"engram/a.cpp": STORY + "#include <caf/all.hpp>\n"}, {"actors/a.cpp": STORY + "#include <caf/all.hpp>\n"}),
    ("layers", {"gpu/a.cpp": STORY + "#include <boost/asio.hpp>\n"}, {"net/a.cpp": STORY + "#include <boost/asio.hpp>\n"}),
    ("layers", {"net/a.cpp": STORY + "#include <gpu/cpu/ops.hpp>\n"}, {"net/a.cpp": STORY + "// #include <gpu/cpu/ops.hpp>\n"}),
    ("layers", {"actors/a.cpp": STORY + "#include <boost/beast/http.hpp>\n"}, {"tests/main.cpp": STORY + "#include <caf/all.hpp>\n"}),
    ("include_path", {"gpu/a.cpp": STORY + '#include "b.hpp"\n', "gpu/b.hpp": STORY + "#pragma once\n"},
     {"gpu/a.cpp": STORY + '#include "gpu/b.hpp"\n', "gpu/b.hpp": STORY + "#pragma once\n"}),
    ("line_width", {"gpu/a.cpp": STORY + "//" + "x" * 119 + "\n"}, {"gpu/a.cpp": STORY + "//" + "x" * 118 + "\n"}),
    ("blanks", {"gpu/a.cpp": STORY + "int a; \n"}, {"gpu/a.cpp": STORY + "int a;\n"}),
    ("blanks", {"gpu/a.cpp": STORY + "\tint a;\n"}, {"gpu/a.cpp": STORY + "\n\nint a;\n"}),
    ("blanks", {"gpu/a.cpp": STORY + "int a;"}, {"gpu/a.cpp": STORY}),
    ("blanks", {"gpu/a.cpp": STORY + "\n"}, {"gpu/a.cpp": STORY}),
    ("notes", {"gpu/a.cpp": STORY + f"// {NOTE} later\n"}, {"gpu/a.cpp": STORY + f"// {NOTE}S is a word\n"}),
    ("notes", {"docs/a.md": "This is not " + "implemented.\n"}, {"docs/a.md": "This is done.\n"}),
    ("one_machine", {"docs/a.md": "see /wo" + "rk/x\n"}, {"docs/a.md": "see network/x\n"}),
    ("story", {"gpu/a.cpp": "int a;\n"}, {"gpu/a.cpp": "/* A story in a block, which is as good as lines. */\nint a;\n"}),
    ("story", {"ops/a.py": "import os\n"}, {"ops/a.py": PY_STORY}),
    ("story", {"ops/a.sh": "#!/bin/sh\nset -e\n"}, {"ops/a.sh": "#!/bin/sh\n# Does the thing that it is there to do, twice.\n"}),
    ("story", {"ops/run": "#!/usr/bin/env python3\nimport os\n"}, {"ops/run": "#!/usr/bin/env python3\n" + PY_STORY}),
    ("function_length", {"gpu/a.cpp": long_function(71)}, {"gpu/a.cpp": long_function(70)}),
    ("function_length", {"gpu/a.cpp": long_function(71, "template <class T, int n = 1> A::A(T a) : b(a) {")},
     {"gpu/a.cpp": long_function(90, "namespace x {")}),
    ("function_length", {"ops/a.py": PY_STORY + "def f():\n" + "    g()\n" * 70}, {"ops/a.py": PY_STORY + "def f():\n" + "    g()\n" * 69}),
    ("file_length", {"gpu/a.cpp": STORY + "int a;\n" * 400}, {"gpu/a.cpp": STORY + "int a;\n" * 399}),
    ("banned_call", {"gpu/a.cpp": STORY + "auto* a = new Thing(1);\n"}, {"gpu/a.cpp": STORY + "int renew = make_new(1);  // new Thing\n"}),
    ("banned_call", {"gpu/a.cpp": STORY + "take(new Thing());\n"}, {"gpu/a.cpp": STORY + "return unique_ptr<T>(\n    new T());\n"}),
    ("banned_call", {"gpu/a.cpp": STORY + "delete a;\n"}, {"gpu/a.cpp": STORY + "A(const A&) = delete;\n"}),
    ("banned_call", {"gpu/a.cpp": STORY + "void* a = std::malloc(4);\n"}, {"gpu/a.cpp": STORY + "pool.free(page);\n"}),
    ("banned_call", {"ops/a.cpp": STORY + "std::this_thread::sleep_for(1s);\n"}, {"ops/a.cpp": STORY + "timer.sleep_budget(1s);\n"}),
    ("banned_call", {"ops/a.cpp": STORY + 'std::system("ls");\n'}, {"ops/a.cpp": STORY + "ecosystem(a); node.system(b);\n"}),
    ("banned_call", {"net/a.cpp": STORY + 'printf("a");\n'}, {"ops/a.cpp": STORY + 'std::printf("a");\n'}),
    ("banned_call", {"net/a.cpp": STORY + "std::cout << 1;\n"}, {"ops/a.cpp": STORY + "std::cout << 1;\n"}),
    ("banned_call", {"gpu/a.cpp": STORY + "thread.detach();\n"}, {"gpu/a.cpp": STORY + 'say("detach()");\n'}),
    ("banned_call", {"gpu/a.cpp": STORY + "std::abort();\n"}, {"gpu/a.cpp": STORY + "source.abort();\n"}),
    ("pragma_once", {"gpu/a.hpp": STORY}, {"gpu/a.hpp": STORY + "#pragma once\n", "gpu/b_inl.hpp": STORY}),
    ("python_parses", {"ops/a.py": PY_STORY + "def f(:\n"}, {"ops/a.py": PY_STORY + "def f(): pass\n"}),
    ("top_level", {"lib/a.md": "a\n"}, {"docs/a.md": "a\n", ".ci/run": "#!/bin/sh\n# Runs everything that a change has to pass.\n"}),
    ("top_level", {"notes.md": "a\n"}, {"LICENSE": "a\n"}),
    ("names", {"gpu/string_utils.hpp": STORY + "#pragma once\n"}, {"gpu/utility_rows.hpp": STORY + "#pragma once\n"}),
    ("readme", {f"gpu/sub/a{i}.cpp": STORY for i in range(8)}, {f"gpu/sub/a{i}.cpp": STORY for i in range(7)}),
    ("readme", {f"ops/p/a{i}.py": PY_STORY for i in range(8)},
     {**{f"ops/p/a{i}.py": PY_STORY for i in range(8)}, "ops/p/__init__.py": PY_STORY, **{f"tests/x/a{i}.py": PY_STORY for i in range(9)}}),
    ("readme", {"gpu/README.md": "a\n" * 81}, {"gpu/README.md": "a\n" * 80}),
    ("built", {"ops/x/a.cpp": STORY, "ops/CMakeLists.txt": "file(GLOB s CONFIGURE_DEPENDS *.cpp verbs/*.cpp)\n"},
     {"ops/verbs/a.cpp": STORY, "ops/CMakeLists.txt": "file(GLOB s CONFIGURE_DEPENDS *.cpp verbs/*.cpp)\n"}),
    ("built",
     {"tests/x/a_test.cpp": STORY, "tests/CMakeLists.txt": TEST_CMAKE.replace("x", "y")},
     {"tests/x/a_test.cpp": STORY, "tests/CMakeLists.txt": TEST_CMAKE}),
    ("built", {"gpu/a.cpp": STORY, "gpu/CMakeLists.txt": "# a.cpp\n"},
     {"gpu/a.cpp": STORY, "gpu/CMakeLists.txt": "add_library(x a.cpp)\n"}),
    ("tree_size", {"configs/a.bin": "x" * 40_000_000, "configs/b.bin": "x" * 22_000_000},
     {"configs/a.bin": "x" * 40_000_000, "configs/b.bin": "x" * 21_000_000, ".cache/c.bin": "x" * 1_000_000}),
]


class RuleTest(unittest.TestCase):
    def test_a_sample_that_breaks_a_rule_is_found_and_its_neighbour_is_not(self):
        for number, (rule, broken, kept) in enumerate(CASES):
            with self.subTest(rule=rule, number=number):
                self.assertIn(rule, rules_broken(broken))
                self.assertNotIn(rule, rules_broken(kept))

    def test_every_rule_has_a_sample(self):
        self.assertEqual(tidy.rule_names(), {rule for rule, _, _ in CASES})


class FunctionTest(unittest.TestCase):
    def found(self, text):
        return [(f.name, f.length) for f in cpp_text.functions(cpp_text.blank_comments_and_literals(text))]

    def test_a_lambda_belongs_to_the_function_around_it(self):
        text = "void f() {\n  auto g = [](int a) {\n    return a;\n  };\n}\nint h() {}\n"
        self.assertEqual(self.found(text), [("f", 5), ("h", 1)])

    def test_members_inside_a_class_are_functions_of_their_own(self):
        text = "class A {\n public:\n  int f() const {\n    return 1;\n  }\n  int b = 0;\n};\n"
        self.assertEqual(self.found(text), [("f", 3)])

    def test_braces_in_literals_and_comments_do_not_count(self):
        self.assertEqual(self.found('int f() {\n  // }\n  g("}", \'}\', R"(}\n)", 1\'000);\n}\n'), [("f", 5)])

    def test_a_suite_around_a_namespace_is_no_function(self):
        text = "BOOST_AUTO_TEST_SUITE(pack)\n\nnamespace {\nint f() {\n  return 1;\n}\n}\nBOOST_AUTO_TEST_SUITE_END()\n"
        self.assertEqual(self.found(text), [("f", 3)])

    def test_an_initialised_table_is_no_function(self):
        self.assertEqual(self.found("constexpr int a[] = {\n  f(1),\n  2,\n};\nint b{3};\n"), [])


class AllowListTest(unittest.TestCase):
    BROKEN = {"gpu/README.md": "a\n", "gpu/CMakeLists.txt": CMAKE, "gpu/a.cpp": STORY + "delete a;\n"}

    def left(self, allow):
        return [(finding.rule, finding.path) for finding in tidy.check(Tree.from_texts(self.BROKEN), allow)]

    def test_an_entry_excuses_its_rule_in_its_file(self):
        self.assertEqual(self.left("# why\nbanned_call | gpu/a.cpp | this sample shows how it is done\n"), [])

    def test_an_entry_that_excuses_nothing_fails(self):
        self.assertIn(("allow_list", tidy.ALLOW_PATH), self.left("blanks | gpu/a.cpp | this sample shows how it is done\n"))

    def test_an_entry_needs_a_known_rule_a_reason_and_three_parts(self):
        for line in ("nonsense | gpu/a.cpp | long enough a reason", "banned_call | gpu/a.cpp | short", "banned_call gpu/a.cpp"):
            with self.subTest(line=line):
                self.assertEqual(len(self.left(line)), 2)

    def test_the_same_entry_twice_fails(self):
        line = "banned_call | gpu/a.cpp | this sample shows how it is done\n"
        self.assertEqual(self.left(line * 2), [("allow_list", tidy.ALLOW_PATH)])


class CommandTest(unittest.TestCase):
    def test_the_command_exits_1_exactly_if_it_prints_findings(self):
        result = subprocess.run([sys.executable, tidy.__file__], capture_output=True, text=True)
        last = result.stdout.splitlines()[-1]
        self.assertRegex(last, r"^tidy: \d+ files, \d+ rules, \d+ findings$")
        self.assertEqual(result.returncode, 0 if last.endswith(" 0 findings") else 1)


if __name__ == "__main__":
    unittest.main()
