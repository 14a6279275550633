package sandbox_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/security/sandbox"
)

// anyPath draws from few names, so that paths often lie within each other.
var anyPath = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 0, 3).Draw(t, "parts")
	return "/" + strings.Join(parts, "/")
})

var anyDenied = rapid.Custom(func(t *rapid.T) sandbox.DeniedFiles {
	paths := rapid.SliceOfN(anyPath, 0, 2)
	return sandbox.DeniedFiles{Hidden: paths.Draw(t, "hidden"), ReadOnly: paths.Draw(t, "read-only"), Fixed: paths.Draw(t, "fixed"),
		Unknown: paths.Draw(t, "unknown")}
})

var anyPolicy = rapid.Custom(func(t *rapid.T) sandbox.Policy {
	paths := rapid.SliceOfN(anyPath, 0, 4)
	return sandbox.Policy{
		Files: sandbox.Files{Read: paths.Draw(t, "read"), Write: paths.Draw(t, "write"), Show: paths.Draw(t, "show"),
			Sockets: rapid.SliceOfN(rapid.SampledFrom([]string{"/a", "/b", "/c"}), 0, 3).Draw(t, "sockets"),
			Denied:  anyDenied.Draw(t, "denied"), Temp: rapid.Bool().Draw(t, "temp"), Home: rapid.Bool().Draw(t, "home")},
		Network:     sandbox.Network(rapid.IntRange(0, 2).Draw(t, "network")),
		Subprocess:  rapid.Bool().Draw(t, "subprocess"),
		Unprotected: rapid.Bool().Draw(t, "unprotected"),
		Limits: sandbox.Limits{
			CPU:       time.Duration(rapid.IntRange(0, 3).Draw(t, "cpu")) * time.Minute,
			FileSize:  rapid.Int64Range(0, 3).Draw(t, "size"),
			OpenFiles: rapid.IntRange(0, 3).Draw(t, "files"),
			Processes: rapid.IntRange(0, 3).Draw(t, "processes"),
			Memory:    rapid.Int64Range(0, 3).Draw(t, "memory"),
		},
		Env: rapid.SliceOfN(rapid.SampledFrom([]string{"A", "B", "C"}), 0, 3).Draw(t, "env"),
	}
})

func TestMeetIsALattice(t *testing.T) {
	same := func(t *rapid.T, law string, x, y sandbox.Policy) {
		if diff := cmp.Diff(x, y); diff != "" {
			t.Errorf("%s (-left +right):\n%s", law, diff)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyPolicy.Draw(t, "a"), anyPolicy.Draw(t, "b"), anyPolicy.Draw(t, "c")
		ab := sandbox.Meet(a, b)
		same(t, "commutative", ab, sandbox.Meet(b, a))
		same(t, "associative", sandbox.Meet(ab, c), sandbox.Meet(a, sandbox.Meet(b, c)))
		same(t, "idempotent", ab, sandbox.Meet(ab, ab))
		same(t, "absorbing", ab, sandbox.Meet(ab, a))
		// denials add up, and a home is the same for both
		strictest := sandbox.Policy{Files: sandbox.Files{Denied: sandbox.Meet(a, a).Files.Denied, Home: a.Files.Home}}
		same(t, "strictest", strictest, sandbox.Meet(a, sandbox.Policy{}))
		for _, list := range [][2][]string{{a.Files.Denied.Hidden, ab.Files.Denied.Hidden}, {b.Files.Denied.ReadOnly,
			ab.Files.Denied.ReadOnly}, {a.Files.Denied.Fixed, ab.Files.Denied.Fixed}, {b.Files.Denied.Unknown, ab.Files.Denied.Unknown}} {
			for _, path := range list[0] {
				if !slices.Contains(list[1], path) {
					t.Errorf("%s is denied in one, and not in both: %q", path, list[1])
				}
			}
		}
	})
}

// What a policy allows is asked here in another way than Meet answers it: for single paths.
func TestMeetAllowsExactlyWhatBothAllow(t *testing.T) {
	below := func(path string, tops []string) bool {
		for _, top := range tops {
			if rel, err := filepath.Rel(top, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				return true
			}
		}
		return false
	}
	reads := func(p sandbox.Policy, path string) bool {
		return below(path, p.Files.Read) || below(path, p.Files.Write)
	}
	writes := func(p sandbox.Policy, path string) bool { return below(path, p.Files.Write) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyPolicy.Draw(t, "a"), anyPolicy.Draw(t, "b")
		m := sandbox.Meet(a, b)
		for _, top := range slices.Concat(a.Files.Read, a.Files.Write, b.Files.Read, b.Files.Write, m.Files.Read) {
			for _, path := range []string{top, top + "/a", top + "b", filepath.Dir(top)} {
				for name, can := range map[string]func(sandbox.Policy, string) bool{"read": reads, "write": writes} {
					if got, want := can(m, path), can(a, path) && can(b, path); got != want {
						t.Fatalf("%s %s: %v, want %v: %v meet %v is %v", name, path, got, want, a.Files, b.Files, m.Files)
					}
				}
			}
		}
		if m.Network > a.Network || m.Network > b.Network || m.Subprocess && !(a.Subprocess && b.Subprocess) ||
			m.Unprotected && !(a.Unprotected && b.Unprotected) ||
			m.Files.Temp && !(a.Files.Temp && b.Files.Temp) || m.Files.Home != (a.Files.Home || b.Files.Home) ||
			m.Limits.CPU > min(a.Limits.CPU, b.Limits.CPU) || m.Limits.FileSize > min(a.Limits.FileSize, b.Limits.FileSize) ||
			m.Limits.OpenFiles > min(a.Limits.OpenFiles, b.Limits.OpenFiles) ||
			m.Limits.Processes > min(a.Limits.Processes, b.Limits.Processes) ||
			m.Limits.Memory > min(a.Limits.Memory, b.Limits.Memory) {
			t.Errorf("%+v is wider than %+v or %+v", m, a, b)
		}
	})
}

func TestPathThatIsNotAbsoluteIsNoPlace(t *testing.T) {
	p := sandbox.Policy{Files: sandbox.Files{Read: []string{"", ".", "a", "/a\x00b"}, Write: []string{"../..", "/x/../../y"}}}
	want := sandbox.Files{Read: []string{"/y"}, Write: []string{"/y"}}
	if diff := cmp.Diff(want, sandbox.Meet(p, p).Files); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
}

func TestPresetsAreInTheirShortestForm(t *testing.T) {
	standard, err := sandbox.Standard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]sandbox.Policy{"standard": standard, "permissive": sandbox.Permissive(),
		"restrictive": sandbox.Restrictive(), "zero": {}} {
		if diff := cmp.Diff(p, sandbox.Meet(p, p)); diff != "" {
			t.Errorf("%s (-is +met with itself):\n%s", name, diff)
		}
		if diff := cmp.Diff(p, sandbox.Meet(p, sandbox.Permissive())); diff != "" && name != "permissive" {
			t.Errorf("%s is not within permissive (-is +met):\n%s", name, diff)
		}
	}
}

func TestLinksAreResolvedWhenThePolicyIsMade(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	f, err := sandbox.Custom([]string{link, filepath.Join(dir, "absent")}, []string{link})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandbox.Files{Read: []string{real}, Write: []string{real}, Temp: true}, f); diff != "" {
		t.Errorf("the files (-want +got):\n%s", diff)
	}
	if _, err := sandbox.WorkingDirectoryOnly(filepath.Join(dir, "absent")); err == nil {
		t.Error("a directory that does not exist can be written")
	}
	if _, err := sandbox.Standard(filepath.Join(dir, "absent")); err == nil {
		t.Error("a directory that does not exist has a policy")
	}
}
