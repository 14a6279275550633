package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// EventLine returns an event as one line for people: the node, the type, the agent, and the
// best-known fields as key=value. It is safe to print on a terminal. Scripts use --json instead;
// this format is no contract.
func EventLine(e event.Event) string {
	var f map[string]any
	if json.Unmarshal(e.Data, &f) != nil {
		f = nil
	}
	name, _ := f["name"].(string)
	if name == "" {
		name = e.Agent
	}
	parts := []string{terminal.Printable(e.Node), e.Type, terminal.Printable(name)}
	// 100 characters keep a line readable; of a warning and an interrupted session all is shown,
	// because they say what to do.
	limit := 100
	if e.Type == "warning" || e.Type == "session" {
		limit = 400
	}
	if id, _ := f["id"].(string); e.Type == "session" && id != "" { // commands take it
		parts = append(parts[:2], terminal.Printable(id), "agent="+terminal.Printable(name))
	}
	for _, key := range []string{"server", "state", "on", "tool", "verdict", "rule", "skill", "rules", "listed", "capability", "perception", "count", "from", "member", "model", "next", "wait", "text", "reason", "why", "mend", "trace", "error"} {
		if v, ok := f[key]; ok && v != "" {
			parts = append(parts, key+"="+visible.TruncateRunes(terminal.Printable(fmt.Sprint(v)), limit))
		}
	}
	return strings.Join(parts, " ")
}
