package sandbox_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/security/sandbox"
)

func meet(with sandbox.Policy) func(sandbox.Policy) sandbox.Policy {
	return func(p sandbox.Policy) sandbox.Policy { return sandbox.Meet(p, with) }
}

// Whatever a constraint is, its description leaves no more of a machine's policy than the constraint.
func TestPortableNeverLeavesMore(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		only, machine := anyPolicy.Draw(t, "constraint"), anyPolicy.Draw(t, "machine")
		only.Files.Denied = sandbox.DeniedFiles{}
		for _, paths := range []*[]string{&only.Files.Read, &only.Files.Write, &machine.Files.Read, &machine.Files.Write} {
			if rapid.Bool().Draw(t, "workspace") {
				*paths = append(*paths, dir)
			}
		}
		p, err := sandbox.Describe(meet(only), dir)
		if err != nil {
			t.Skip(err)
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var read sandbox.Portable
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		constrain, err := read.Constraint(dir)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		got := constrain(machine)
		if diff := cmp.Diff(got, sandbox.Meet(got, sandbox.Meet(machine, only))); diff != "" {
			t.Fatalf("%s leaves more than the constraint (-left +less):\n%s", data, diff)
		}
	})
}

func TestPortableSaysWhatHolds(t *testing.T) {
	dir := t.TempDir()
	standard, err := sandbox.Standard(dir)
	if err != nil {
		t.Fatal(err)
	}
	machine := sandbox.Permissive()
	machine.Env = []string{"A", "B"}
	for name, tt := range map[string]struct {
		only sandbox.Policy
		want func(sandbox.Policy) bool
	}{
		"no network, no subprocess": {sandbox.Restrictive(), func(p sandbox.Policy) bool {
			return p.Network == sandbox.NetworkNone && !p.Subprocess && len(p.Files.Write) == 0 && slices.Equal(p.Files.Read, []string{"/"})
		}},
		"workspace only": {standard, func(p sandbox.Policy) bool {
			return p.Network == sandbox.NetworkLocal && slices.Equal(p.Files.Write, standard.Files.Write) && p.Limits == standard.Limits &&
				p.Files.Temp
		}},
		"variables": {sandbox.Policy{Env: []string{"B", "C"}}, func(p sandbox.Policy) bool { return len(p.Env) == 0 }},
		"nothing":   {sandbox.Policy{Network: sandbox.NetworkFull}, func(p sandbox.Policy) bool { return p.Network == sandbox.NetworkFull && len(p.Files.Read) == 0 }},
	} {
		p, err := sandbox.Describe(meet(tt.only), dir)
		if err != nil {
			t.Fatal(err)
		}
		constrain, err := p.Constraint(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := constrain(machine); !tt.want(got) {
			t.Errorf("%s: %+v leaves %+v", name, p, got)
		}
	}
	all, err := sandbox.Describe(func(p sandbox.Policy) sandbox.Policy { return p }, dir)
	if err != nil {
		t.Fatal(err)
	}
	constrain, err := all.Constraint(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandbox.Meet(machine, machine), constrain(machine)); diff != "" {
		t.Errorf("a constraint that takes nothing takes (-want +got):\n%s", diff)
	}
	none, err := sandbox.Portable{}.Constraint(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sandbox.Policy{}, none(machine)); diff != "" {
		t.Errorf("the least leaves (-want +got):\n%s", diff)
	}
}

func TestPortableRefusesWhatOtherMachineCannotKeep(t *testing.T) {
	dir := t.TempDir()
	for name, only := range map[string]sandbox.Policy{
		"a directory to write":  {Files: sandbox.Files{Read: []string{"/"}, Write: []string{"/elsewhere"}}},
		"a part to write":       {Files: sandbox.Files{Read: []string{"/"}, Write: []string{filepath.Join(dir, "out")}}},
		"a directory to read":   {Files: sandbox.Files{Read: []string{"/elsewhere"}}},
		"a file that is denied": {Files: sandbox.Files{Denied: sandbox.DeniedFiles{Hidden: []string{"/x"}}}},
	} {
		if p, err := sandbox.Describe(meet(only), dir); err == nil {
			t.Errorf("%s: it is described as %+v", name, p)
		}
	}
	for name, p := range map[string]sandbox.Portable{
		"a network":      {Network: 3},
		"no network":     {Network: -1},
		"a path to read": {Files: sandbox.Files{Read: []string{"/etc"}}},
		"to write":       {Files: sandbox.Files{Write: []string{"/", ""}}},
		"no workspace":   {Files: sandbox.Files{Write: []string{"workspace"}}},
	} {
		if _, err := p.Constraint(filepath.Join(dir, "none")); err == nil {
			t.Errorf("%s: %+v is understood", name, p)
		}
	}
}
