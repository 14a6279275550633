package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/security/visible"
)

// EventLine says an event in a line.
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
	limit := 100
	if e.Type == "warning" {
		limit = 400 // what is to be mended is said whole
	}
	for _, key := range []string{"state", "on", "tool", "verdict", "rule", "skill", "rules", "listed", "capability", "perception", "count", "from", "member", "model", "next", "wait", "text", "reason", "why", "mend", "trace", "error"} {
		if v, ok := f[key]; ok && v != "" {
			parts = append(parts, key+"="+visible.TruncateRunes(terminal.Printable(fmt.Sprint(v)), limit))
		}
	}
	return strings.Join(parts, " ")
}
