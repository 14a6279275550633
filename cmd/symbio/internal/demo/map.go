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
	"time"

	"symbio/agent/llm"
)

// shoutTask is what each agent of symbio map gets.
var shoutTask = regexp.MustCompile(`^Shout (\w+)$`)

// mapWords are the items of symbio map.
const mapWords = "two\nmachines\nneed\nhalf\nof\nthe\ntime\ntogether\n"

// The model of the tour answers at once, so that a second machine would gain nothing. For symbio map it is as slow as a model:
// an item takes MapPause, and a node does MapPlaces of them at the same time.
const (
	MapPause  = 200 * time.Millisecond
	MapPlaces = 2
)

// shout answers an item of symbio map when it has one of the places.
func shout(ctx context.Context, places chan struct{}, word string) (llm.Message, error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return llm.Message{}, context.Cause(ctx)
	}
	select {
	case <-time.After(MapPause):
		return llm.Message{Text: strings.ToUpper(word) + "!"}, nil
	case <-ctx.Done():
		return llm.Message{}, context.Cause(ctx)
	}
}

// mapTwice has symbio map give a word each to agents on node a alone, then to agents on both nodes, and notes the results.
func (s setup) mapTwice(ctx context.Context, p *observer) (*Map, error) {
	m := &Map{Nodes: map[string]int{}}
	begin := time.Now()
	if _, err := s.mapItems(ctx, "a"); err != nil {
		return nil, err
	}
	m.Alone, begin = time.Since(begin).Seconds(), time.Now()
	out, err := s.mapItems(ctx, "all")
	if err != nil {
		return nil, err
	}
	m.Both = time.Since(begin).Seconds()
	for line := range bytes.Lines(out) {
		var r struct{ Item, Result, Node string }
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("symbio map: %w", err)
		}
		p.note(r.Node, "MAPPED: symbio map gave "+r.Item+" to an agent here: "+r.Result)
		m.Items++
		m.Nodes[r.Node]++
	}
	return m, nil
}

// mapItems returns what symbio map prints for the words on the nodes.
func (s setup) mapItems(ctx context.Context, nodes string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.options.Self, "map", "--node", "a", "--nodes", nodes, "--parallel", "4", "--agent", "surveyor", "--lines", "-", "--task", "Shout {item}")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir)
	said := &tail{max: maxStderr}
	cmd.Stdin, cmd.Stderr = strings.NewReader(mapWords), said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("symbio map: %w: %s", err, said.kept)
	}
	return out, nil
}
