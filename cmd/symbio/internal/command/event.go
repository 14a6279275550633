package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
)

// EventLine returns an event as one line for people: the node, the type, the agent, and the
// best-known fields as key=value. It is safe to print on a terminal. Scripts use --json instead;
// this format is no contract.
func EventLine(e event.Event) string {
	var f map[string]any
	if line, err := json.Marshal(e); err != nil || json.Unmarshal(line, &f) != nil {
		f = nil
	}
	name := cmp.Or(e.Name, e.Agent)
	parts := []string{terminal.Printable(e.Node), e.Type, terminal.Printable(name)}
	// 100 characters keep a line readable; of a warning and an interrupted session all is shown,
	// because they say what to do.
	limit := 100
	if e.Type == event.TypeWarning || e.Type == event.TypeSession {
		limit = 400
	}
	if id := event.PartOf[event.Session](e).ID; id != "" { // commands take it
		parts = append(parts[:2], terminal.Printable(id), "agent="+terminal.Printable(name))
	}
	for _, key := range []string{"server", "state", "on", "tool", "verdict", "rule", "skill", "rules", "listed", "capability", "perception",
		"count", "from", "member", "model", "next", "wait", "text", "reason", "why", "mend", "trace", "error"} {
		if v, ok := f[key]; ok && v != "" {
			parts = append(parts, key+"="+visible.TruncateRunes(terminal.Printable(fmt.Sprint(v)), limit))
		}
	}
	return strings.Join(parts, " ")
}
