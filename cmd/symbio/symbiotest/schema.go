package symbiotest

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema returns what symbio config schema prints for the name.
func Schema(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	text, err := exec.Command("symbio", "config", "schema", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
