package community_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"symbio/community"
)

// What a member and a capability may say of themselves: as much as each limit is taken, one more is refused.
func TestLimitsAreExact(t *testing.T) {
	type attempt = func(*community.Community) error
	spawn := func(name string, takes []string, metadata map[string]string) attempt {
		return func(c *community.Community) error {
			_, err := c.Spawn(t.Context(), name, makes(&worker{takes: takes}), community.WithMetadata(metadata))
			return err
		}
	}
	offer := func(p community.Capability) attempt {
		return func(c *community.Community) error {
			return c.Offer(p, func(context.Context, community.Signal) (community.Reply, error) { return community.Reply{}, nil })
		}
	}
	numbered := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint("p", i))
		}
		return names
	}
	entries := func(n int) map[string]string {
		m := map[string]string{}
		for _, name := range numbered(n) {
			m[name] = ""
		}
		return m
	}
	schema := func(n int) json.RawMessage {
		const empty = `{"description":""}`
		return json.RawMessage(strings.Replace(empty, `""`, `"`+strings.Repeat("x", n-len(empty))+`"`, 1))
	}
	for about, limit := range map[string]struct {
		n   int
		try func(n int) attempt
	}{
		"perceptions":      {256, func(n int) attempt { return spawn("x", numbered(n), nil) }},
		"name":             {64, func(n int) attempt { return spawn("x", []string{strings.Repeat("x", n)}, nil) }},
		"label":            {128, func(n int) attempt { return spawn(strings.Repeat("x", n), []string{"a"}, nil) }},
		"metadata":         {64, func(n int) attempt { return spawn("x", []string{"a"}, entries(n)) }},
		"text of metadata": {1024, func(n int) attempt { return spawn("x", []string{"a"}, map[string]string{"k": strings.Repeat("x", n)}) }},
		"name to offer":    {64, func(n int) attempt { return offer(community.Capability{Name: strings.Repeat("x", n)}) }},
		"description": {4096, func(n int) attempt {
			return offer(community.Capability{Name: "x", Description: strings.Repeat("x", n)})
		}},
		"schema of input":  {16384, func(n int) attempt { return offer(community.Capability{Name: "x", Input: schema(n)}) }},
		"schema of output": {16384, func(n int) attempt { return offer(community.Capability{Name: "x", Output: schema(n)}) }},
	} {
		t.Run(about, func(t *testing.T) {
			c, _ := run(t, community.Config{})
			if err := limit.try(limit.n + 1)(c); err == nil {
				t.Errorf("%d are taken, want at most %d", limit.n+1, limit.n)
			}
			if err := limit.try(limit.n)(c); err != nil {
				t.Errorf("%d are refused: %v", limit.n, err)
			}
		})
	}
}
