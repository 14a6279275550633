package doctor

import (
	"testing"

	"symbio/agent/node/config"
)

func TestLendingRulesAreReported(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"nobody":                  {"", "ok|nothing offers agents.spawn"},
		"this user's nodes":       {"capabilities: [{name: agents.spawn, agents: [general]}]", "ok|other nodes may spawn general here, as far as authorize lets them: 8 at a time, 4 of one node, each for up to 30m0s"},
		"nobody, by authorize":    {"capabilities: [{name: agents.spawn, agents: [general]}]\nauthorize: [{from: '*', send: [task]}]", "warn|but no rule allows it|name who may under authorize"},
		"an agent that is not":    {"capabilities: [{name: agents.spawn, agents: [general, worker]}]", `fail|agent definition "worker": not found|correct the names`},
		"definitions that are no": {"agents: /nowhere/x.md\ncapabilities: [{name: agents.spawn, agents: [ann]}]", `fail|"ann"|correct the names`},
	} {
		t.Run(name, func(t *testing.T) {
			w := healthy(t)
			var err error
			if w.Options.Settings, _, err = config.Parse("f", []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			compare(t, lendsAgents(t.Context(), w), []string{tt.want})
		})
	}
}
