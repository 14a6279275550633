package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/tool"
)

func TestPresetStandsForItsTools(t *testing.T) {
	got := tool.Expand([]string{"send_signal", "preset:read_only", "preset:nosuch", "files"})
	want := []string{"send_signal", "Read", "Glob", "Grep", "Plan", "preset:nosuch", "files"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := len(tool.Expand([]string{"preset:default"})); n != 11 {
		t.Errorf("the default preset has %d tools, want the ten of the spec and Plan", n)
	}
}
