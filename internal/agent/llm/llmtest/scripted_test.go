package llmtest_test

import (
	"encoding/json"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
)

func TestScriptedModelPassesTheSuite(t *testing.T) {
	runSuite(t, func(t *testing.T, a answer) llm.Model {
		turn := map[string]any{"text": a.Text, "usage": map[string]any{"input": a.Usage.Input, "output": a.Usage.Output}}
		var calls []any
		for _, c := range a.Calls {
			var args any
			if err := json.Unmarshal(c.Args, &args); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, map[string]any{"tool": c.Name, "args": args})
		}
		turn["calls"] = calls
		if a.Stop != "" {
			turn["stop"] = string(a.Stop)
		}
		if a.Stall {
			turn["stall"] = time.Hour.String()
		}
		switch a.Fault {
		case nil:
		case llm.ErrCut, llm.ErrMalformed:
			return nil // faults of a wire, which a script has not
		default:
			turn["error"] = map[string]any{"status": map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 503}[a.Fault]}
		}
		script, err := yaml.Marshal(map[string]any{"turns": []any{turn}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := scripted.Parse("suite", script)
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
