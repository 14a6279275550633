package share

import (
	"os"
	"path/filepath"
	"testing"
)

// A skill that was not written as a whole has no origin, so it is not found.
func TestSkillThatCannotBeWrittenHasNoOrigin(t *testing.T) {
	dir := t.TempDir()
	p := &Pack{Manifest: Manifest{Name: "my-skill"}}
	if err := writeSkill(filepath.Join(dir, "none"), p, Origin{}); err == nil {
		t.Error("it was written into no directory")
	}
	if err := os.Mkdir(filepath.Join(dir, p.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeSkill(dir, p, Origin{}); err == nil {
		t.Error("it was written over another one")
	}
	if _, err := os.Stat(filepath.Join(dir, originFile)); err == nil {
		t.Error("there is an origin")
	}
}
