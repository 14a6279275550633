package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/budget"
	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
)

// status is what the last row says.
type status struct {
	state chat.State
	// settings are the latest of the node; context of window tokens are filled, cost was spent.
	settings        event.Settings
	context, window int
	cost            float64
	// askedMode is the mode that Shift-Tab asked for and that the node has not answered yet; "" = none. The next Shift-Tab
	// goes on from it.
	askedMode string
	// busySince is when the current answer began.
	busySince time.Time
}

// set takes up what the conversation is doing.
func (s *status) set(state chat.State) {
	if state.Busy && !s.state.Busy {
		s.busySince = time.Now()
	}
	s.state = state
}

// event follows an event of the node; root is the agent whose context is shown.
func (s *status) event(e event.Event, root string) {
	switch f := e.Part.(type) {
	case event.Settings:
		s.settings, s.window = f, cmp.Or(f.Window, s.window)
		if e.Why != "" || f.Mode == s.askedMode {
			s.askedMode = ""
		}
	case event.Turn:
		if f.Window > 0 && e.Agent == root {
			s.context, s.window = f.Context, f.Window
		}
	case event.End:
		if f.Spent != nil && e.Type == event.TypeResult {
			s.cost += f.Spent.Cost
		}
	}
}

// nextMode returns the mode behind the current one.
func (s *status) nextMode() string {
	modes := []string{"ask", "edits", "plan"}
	now := cmp.Or(s.askedMode, s.settings.Mode, modes[0])
	s.askedMode = modes[(slices.Index(modes, now)+1)%len(modes)]
	return s.askedMode
}

// text returns the status behind what is going on: what the conversation is like.
func (s *status) text(activity string) string {
	parts := []string{activity}
	if mode := s.settings.Mode; mode != "" && mode != "ask" {
		parts = append(parts, "mode "+mode)
	}
	if s.window > 0 {
		parts = append(parts, fmt.Sprintf("%d%% of %s", min(100, 100*s.context/s.window), budget.Rounded(int64(s.window))))
	}
	if s.cost > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", s.cost))
	}
	parts = append(parts, strings.TrimSpace(s.settings.Model+" "+s.settings.Effort))
	if level := s.settings.Sandbox; level == "off" {
		parts = append(parts, "no sandbox")
	} else if level != "" {
		parts = append(parts, "sandbox "+level)
	}
	parts = slices.DeleteFunc(append(parts, s.state.Node), func(part string) bool { return part == "" })
	return clean(strings.Join(parts, " · "))
}
