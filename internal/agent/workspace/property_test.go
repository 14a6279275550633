package workspace_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"symbio/internal/agent/workspace"
)

// genTree makes trees of few names and contents, so that they often meet: files in the place of directories, links to all of them.
func genTree(rt *rapid.T, label string) tree {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	text := rapid.SampledFrom([]string{"", "1\n2\n3\n", "1\n2\n3\n4\n5\n", "0\n1\n2\n3\n", "x:1\n2\n3\n", "\x00", "->a", "->b", "->../a",
		"->c/a", "->."})
	all := tree{}
	for range rapid.IntRange(0, 8).Draw(rt, label) {
		p := name.Draw(rt, "name")
		for range rapid.IntRange(0, 2).Draw(rt, "depth") {
			p = path.Join(p, name.Draw(rt, "name"))
		}
		all[p] = text.Draw(rt, "text")
	}
	return all
}

// mutate writes the files of a tree one after the other, and removes what is in their way, and what has "-".
func mutate(t testing.TB, dir string, changes tree) {
	for _, p := range slices.Sorted(maps.Keys(changes)) {
		for i, c := range p { // from the top, so that none is found through a link
			if info, err := os.Lstat(dir + "/" + p[:i]); c == '/' && err == nil && !info.IsDir() {
				tree{p[:i]: "-"}.write(t, dir)
			}
		}
		tree{p: changes[p]}.write(t, dir)
		for at := path.Dir(p); changes[p] == "-" && at != "." && os.Remove(dir+"/"+at) == nil; {
			at = path.Dir(at)
		}
	}
}

func TestPatchMakesWhatTheLenderHas(t *testing.T) {
	t.Setenv("PATH", "") // git is slow, and these are no repositories
	// Fewer than usual, for the time of all tests, unless -rapid.checks asks for another number.
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := flag.Set("rapid.checks", "40"); err != nil {
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", checks.DefValue)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := fmt.Sprintf("%s/%d", t.TempDir(), n)
		if err := os.Mkdir(dir, 0o755); err != nil {
			rt.Fatal(err)
		}
		mutate(t, dir, genTree(rt, "base"))
		for _, o := range take(t, dir, workspace.Options{}).Omitted {
			mutate(t, dir, tree{o.Path: "-"})
		}
		base, there, store := lend(t, dir)
		check(rt, read(t, there), read(t, dir))

		theirs := genTree(rt, "theirs")
		for _, p := range slices.Sorted(maps.Keys(read(t, there))) {
			if rapid.IntRange(0, 3).Draw(rt, "delete") == 0 {
				theirs[p] = "-"
			}
		}
		mutate(t, there, theirs)
		p, omitted := diff(t, base.Manifest, there, store)
		want := read(t, there)
		for _, o := range omitted {
			delete(want, o.Path)
		}

		ours := tree{}
		if rapid.Bool().Draw(rt, "both sides") {
			ours = genTree(rt, "ours")
		}
		was := read(t, dir)
		mutate(t, dir, ours)
		before := read(t, dir)
		pl := plan(t, p, base.Manifest, dir, store)
		if err := pl.Apply(t.Context(), false); err != nil {
			check(rt, read(t, dir), before)
			if maps.Equal(was, before) {
				rt.Errorf("nothing has changed here, and it is not applied: %v", err)
			}
			return
		}
		got := read(t, dir)
		if maps.Equal(was, before) {
			for _, o := range omitted { // such a file of base stays
				delete(got, o.Path)
			}
			check(rt, got, want)
			return
		}
		for p, text := range before {
			if was[p] == text || want[p] == text || want[p] == was[p] {
				continue // not changed on both sides
			}
			if _, ok := got[p]; !ok {
				rt.Errorf("%s: what was made here is lost", p)
			}
		}
		for p, text := range got {
			if _, both := before[p]; text != before[p] && text != want[p] && !both {
				rt.Errorf("%s: %q is of neither side", p, text)
			}
		}
	})
}
