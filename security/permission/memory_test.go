package permission_test

import (
	"testing"

	"symbio/security/permission"
)

func TestSessionMemoryCanBeOff(t *testing.T) {
	call := permission.Call{Tool: "Write", Args: map[string]any{"file_path": "a"}, Dir: "/w"}
	for off, want := range map[bool]permission.Action{false: permission.Allow, true: permission.Ask} {
		on := !off
		p, err := permission.Config{}.Merge(permission.Config{SessionMemory: &on}).Policy()
		if err != nil {
			t.Fatal(err)
		}
		m := new(permission.Memory)
		m.Remember(call, p, permission.Allow)
		if got := (permission.Chain{{Policy: p, Memory: m}}).Judge(call); got.Action != want {
			t.Errorf("off %v: the remembered call is %v, want %v", off, got.Action, want)
		}
	}
}
