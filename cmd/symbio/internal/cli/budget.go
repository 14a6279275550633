package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	symbiov1 "symbio/proto/symbio/v1"
)

const budgetHelp = "limits of each task, its sub-agents included, such as agents=4,depth=1,spawns_per_minute=10,wall=5m,model_calls=100,tokens=500000,cost=0.5 (cost: by the configured prices)"

// parseBudget reads "agents=4,wall=5m".
func parseBudget(text string) (*symbiov1.Budget, error) {
	b := &symbiov1.Budget{}
	if text == "" {
		return b, nil
	}
	counts := map[string]*uint32{"depth": &b.Depth, "agents": &b.Agents, "spawns_per_minute": &b.SpawnsPerMinute, "model_calls": &b.ModelCalls}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if n, known := counts[key]; known {
			v, err := strconv.ParseUint(value, 10, 32)
			if err != nil || v == 0 {
				return nil, fmt.Errorf("--budget %s: want a whole number over zero, not %q", key, value)
			}
			*n = uint32(v)
			continue
		}
		switch key {
		case "tokens":
			v, err := strconv.ParseUint(value, 10, 63)
			if err != nil || v == 0 {
				return nil, fmt.Errorf("--budget tokens: want a whole number over zero, not %q", value)
			}
			b.Tokens = v
		case "cost":
			v, err := strconv.ParseFloat(value, 64)
			if err != nil || !(v > 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("--budget cost: want a number over zero, such as 0.5, not %q", value)
			}
			b.Cost = v
		case "wall":
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("--budget wall: want a duration such as 5m, not %q", value)
			}
			b.Wall = durationpb.New(d)
		default:
			return nil, fmt.Errorf("--budget: no limit is called %q; there are depth, agents, spawns_per_minute, wall, model_calls, tokens and cost", key)
		}
	}
	return b, nil
}
