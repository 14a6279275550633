package config_test

import (
	"fmt"
	"strings"
	"testing"

	"symbio/agent/node/config"
)

func TestSkillsAreSharedByAWordOrByName(t *testing.T) {
	for text, want := range map[string]string{
		"": "{false []} false", "skills: {share: true}": "{true []} true", "skills: {share: false}": "{false []} false",
		"skills: {share: [a, b]}": "{false [a b]} true", "skills: {share: []}": "{false []} false", "skills: {share: yes please}": "line 1: skills.share: write",
		"skills:\n  share: {a: b}": "line 2: skills.share: write", "skills: {share: [[a]]}": "line 1",
	} {
		c, from, err := config.Parse("f", []byte(text))
		got := fmt.Sprint(c.Skills.Share, c.Skills.Share.IsEnabled())
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if err == nil {
			if _, err := c.Values(from); err != nil {
				t.Errorf("%s: its values: %v", text, err)
			}
		}
	}
}
