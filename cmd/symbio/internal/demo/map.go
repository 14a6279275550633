package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// shoutTask is what each agent of symbio map gets.
var shoutTask = regexp.MustCompile(`^Shout (\w+)$`)

// mapItems has symbio map give a word each to agents on both nodes, and notes the results. It returns how many there are.
func (s setup) mapItems(ctx context.Context, p *observer) (n int, err error) {
	cmd := exec.CommandContext(ctx, s.options.Self, "map", "--node", "a", "--agent", "surveyor", "--lines", "-", "--task", "Shout {item}")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	said := &tail{max: maxStderr}
	cmd.Stdin, cmd.Stderr = strings.NewReader("the\nreport\nis\nready\n"), said
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("symbio map: %w: %s", err, said.kept)
	}
	for line := range bytes.Lines(out) {
		var r struct{ Item, Result, Node string }
		if err := json.Unmarshal(line, &r); err != nil {
			return n, fmt.Errorf("symbio map: %w", err)
		}
		p.note(r.Node, "MAPPED: symbio map gave "+r.Item+" to an agent here: "+r.Result)
		n++
	}
	return n, nil
}
