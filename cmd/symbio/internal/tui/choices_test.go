package tui_test

import (
	"testing"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/tui"
)

// What an answer for the session allows beyond the call is said beside the key.
func TestChoiceSaysWhatTheSessionAllows(t *testing.T) {
	for why, want := range map[string]string{
		"No rule matches `make`. For the session: commands may change files below /w; security: workspace never asks about that.": "for the session: commands may change files below /w",
		"No rule matches `make`.": "this call for the session, while the agent lives",
	} {
		if all := tui.Choices(event.Fields{Tool: "Bash", Why: why}); all[1].Key != "s" || all[1].Text != want {
			t.Errorf("%s: %q, want %q", why, all[1].Text, want)
		}
	}
}
