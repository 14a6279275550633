package symbiov1_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed code is what the committed .proto files generate.
func TestGeneratedCodeIsFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	protos, err := filepath.Glob("*.proto")
	if err != nil || len(protos) == 0 {
		t.Fatalf("no .proto files: %v", err)
	}
	out := t.TempDir()
	args := []string{"run", "./protogen", filepath.Join(root, "proto"), out}
	for _, p := range protos {
		args = append(args, "symbio/v1/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(root, ".tools")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("generating: %v\n%s", err, msg)
	}
	fresh, err := filepath.Glob(filepath.Join(out, "symbio/v1/*.go"))
	if err != nil || len(fresh) < len(protos) {
		t.Fatalf("generated %d files of %d protos: %v", len(fresh), len(protos), err)
	}
	for _, f := range fresh {
		want, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(f))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the .proto files generate; run `make generate` (%v)", filepath.Base(f), err)
		}
	}
}
