"""A peer that is missing is named, with what it lacks; it never stops the others."""

import unittest
from unittest import mock

import cases
import contenders


class Broken:
    CONTENDERS = ()

    def __init__(self, name):
        self.name = name

    def __call__(self):
        raise contenders.Missing(self.name + " is not installed")


class Here:
    name = "here"


class ContendersTest(unittest.TestCase):
    def test_missing_is_named_and_skipped(self):
        modules = {
            "contenders.first": mock.Mock(CONTENDERS=(Broken("gone"),)),
            "contenders.second": mock.Mock(CONTENDERS=(Here,)),
        }
        with (
            mock.patch.object(contenders, "MODULES", ("first", "second")),
            mock.patch.object(contenders.importlib, "import_module", modules.__getitem__),
        ):
            found, missing = contenders.present()
        self.assertEqual([contender.name for contender in found], ["here"])
        self.assertEqual(missing, {"gone": "gone is not installed"})

    def test_any_failure_of_an_import_is_a_reason(self):
        with mock.patch.object(
            contenders.importlib, "import_module", side_effect=RuntimeError("no driver")
        ):
            with self.assertRaisesRegex(
                contenders.Missing, "import peer: RuntimeError: no driver; hint"
            ):
                contenders.imported("peer", "hint")

    def test_every_module_of_this_tree_loads_without_its_peer(self):
        found, missing = contenders.present()
        names = [contender.name for contender in found] + list(missing)
        self.assertEqual(
            names and sorted(names),
            sorted(
                [
                    "ours",
                    "fla",
                    "cudnn_cuda",
                    "cudnn_cuda_f32",
                    "cudnn_cutedsl",
                    "flash_kda",
                    "cula",
                ]
            ),
        )
        for name, why in missing.items():
            self.assertTrue(why, name)

    def test_most_peers_serve_one_kind(self):
        usual = cases.Case("usual", 64, 2, 2, (0, 64))
        self.assertEqual(contenders.only_usual(usual), "")
        for case in cases.OTHERS:
            self.assertTrue(contenders.only_usual(case), case.name)

    def test_only_the_named(self):
        found, missing = contenders.present(("flash_kda",))
        self.assertEqual([c.name for c in found] + list(missing), ["flash_kda"])


if __name__ == "__main__":
    unittest.main()
