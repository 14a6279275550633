package config_test

import (
	"strings"
	"testing"
	"time"

	"symbio/agent/budget"
	"symbio/agent/node/config"
	"symbio/internal/agent/lending"
)

func TestAgentsAreLentAsTheFileSays(t *testing.T) {
	c, _, err := config.Parse("f", []byte("budget: {depth: 2, model_calls: 50, wall: 20m}\ncapabilities:\n"+
		"- {name: agents.spawn, agents: [worker, reviewer], concurrency: 6, per_node: 2, approvals: both, timeout: 10m, budget: {agents: 3, depth: 9, tokens: 1000}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := c.Capabilities[0]
	got := p.LenderConfig(c.Budget)
	l := got.Limits
	if got.Max != 6 || got.Approvals != lending.AskBoth || got.PerNode != 2 || got.MaxLifetime != 10*time.Minute || l.Agents != 3 || l.Depth != 2 || l.Tokens != 1000 || l.ModelCalls != 50 || !p.LendsAgents() {
		t.Errorf("it is lent as %+v", got)
	}
	c, _, err = config.Parse("f", []byte("capabilities: [{name: agents.spawn, agents: [worker]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	got = c.Capabilities[0].LenderConfig(c.Budget)
	if got.Max != 8 || got.PerNode != 4 || got.MaxLifetime != 30*time.Minute || got.Limits != c.Budget {
		t.Errorf("by default it is lent as %+v", got)
	}
	if got := (config.Capability{Lending: config.Lending{PerNode: 9}}).LenderConfig(budget.Limits{}); got.PerNode != 8 {
		t.Errorf("%d for one node, of 8 in all", got.PerNode)
	}
	if config.Default().Capabilities != nil {
		t.Error("something is offered by default")
	}
}

func TestMistakesInLendingSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"{name: agents.spawn}":                                                      "agents: list the names",
		"{name: agents.spawn, exec: [x]}":                                           "agents: list the names",
		"{name: agents.spawn, agents: [a], exec: [x]}":                              "exactly one of exec, agent, mcp and model",
		"{name: helpers, agents: [a]}":                                              "for the capability agents.spawn only",
		"{name: a, exec: [x], per_node: 1}":                                         "are for the capability agents.spawn",
		"{name: a, exec: [x], approvals: here}":                                     "are for the capability agents.spawn",
		"{name: agents.spawn, agents: [a], approvals: none}":                        "not borrower, here or both",
		"{name: a, exec: [x], budget: {depth: 1}}":                                  "are for the capability agents.spawn",
		"{name: agents.spawn, agents: [a, a]}":                                      `"a" is empty or listed twice`,
		"{name: agents.spawn, agents: ['']}":                                        "is empty or listed twice",
		"{name: agents.spawn, agents: [a], input: {}}":                              "leave out input",
		"{name: agents.spawn, agents: [a], per_node: -1}":                           "per_node is negative",
		"{name: agents.spawn, agents: [a], concurrency: -1}":                        "concurrency is negative",
		"{name: agents.spawn, agents: [a], timeout: -1s}":                           "timeout is negative",
		"{name: agents.spawn, agents: [a], budget: {tokens: -1}}":                   "budget: a number is negative",
		"{name: agents.spawn, agents: [a], budget: {cost: .nan}}":                   "budget: a number is negative",
		"{name: agents.spawn, agents: [a], budget: {coins: 1}}":                     "unknown key coins",
		"{name: agents.spawn, agents: [a], agent: b}":                               "exactly one of exec, agent, mcp and model",
		"{name: agents.spawn, agents: [a], sandbox: {network: full}}":               "sandbox is for exec",
		"{name: agents.spawn, agents: [a], progress: true}":                         "progress is for exec",
		"{name: agents.spawn, agents: [a]}, {name: agents.spawn, agents: [worker]}": "an earlier capability has this name",
	} {
		if _, _, err := config.Parse("f", []byte("capabilities: ["+text+"]\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestItIsKnownWhetherAnybodyMay(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, // this user's own nodes
		"authorize: [{from: local, send: ['*']}]":                                                             false,
		"authorize: [{from: '*', invoke: ['*']}]":                                                             false, // it has to be named
		"authorize: [{from: ab*, invoke: ['agents.*']}]":                                                      true,
		"authorize: [{from: role/worker, invoke: [agents.spawn]}]":                                            true,
		"authorize: [{from: cluster/home, invoke: [agents.spawn]}]":                                           true,
		"authorize: [{from: role/worker, invoke: [agents.spawn]}, {from: '*', deny: [agents.spawn]}]":         false,
		"authorize: [{from: role/worker, invoke: [agents.spawn]}, {from: role/worker, deny: [agents.spawn]}]": false,
	} {
		c, _, err := config.Parse("f", []byte(text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Authorizes(lending.Capability); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
