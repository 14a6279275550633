package scripted_test

import (
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"symbio/agent/llm"
	"symbio/agent/llm/llmtest"
	"symbio/agent/llm/scripted"
)

func TestScriptedModelPassesTheSuite(t *testing.T) {
	llmtest.Run(t, func(t *testing.T, a llmtest.Answer) llm.Model {
		turn := map[string]any{"text": a.Text, "usage": map[string]any{"input": a.Usage.Input, "output": a.Usage.Output}}
		var calls []any
		for _, c := range a.Calls {
			calls = append(calls, map[string]any{"tool": c.Name, "args": string(c.Args)})
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
		case llm.ErrCut:
			turn["cut"] = true
		case llm.ErrMalformed:
			turn["malformed"] = true
		default:
			turn["error"] = map[string]any{"status": map[error]int{llm.ErrRateLimited: 429, llm.ErrAuth: 401, llm.ErrUnavailable: 503}[a.Fault]}
		}
		script, err := yaml.Marshal(map[string]any{"turns": []any{turn}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := scripted.Parse("suite", script)
		if err != nil {
			t.Fatal(err)
		}
		return scripted.New(s)
	})
}
