package config_test

import (
	"fmt"
	"strings"
	"testing"

	"symbio/agent/node/config"
)

func TestSearchOfTheWebIsConfigured(t *testing.T) {
	c, from, err := config.Parse("symbio.yaml", []byte("web: {search: {url: http://127.0.0.1:8888}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if by, err := c.Web.Search.Searcher(nil); by == nil || err != nil || from["web.search.url"] != "symbio.yaml:1" {
		t.Errorf("got %v, %v, %v", by, err, from)
	}
	if by, err := config.Default().Web.Search.Searcher(nil); by != nil || err != nil {
		t.Errorf("without an instance: %v, %v; want none", by, err)
	}
	keyed := config.WebSearch{Provider: "tavily"}
	by, err := keyed.Searcher(func(name string) string {
		if name != "TAVILY_API_KEY" {
			t.Errorf("reads %s", name)
		}
		return "tvly-1234"
	})
	if text := fmt.Sprintf("%v %+v %#v", by, by, by); err != nil || strings.Contains(text, "tvly-1234") {
		t.Errorf("%v: the key shows in %s", err, text)
	}
	for text, want := range map[string]string{"web: {search: {url: localhost}}": "web.search", "web: {search: {provider: bing}}": "want searxng, brave or tavily", "web: {search: {provider: searxng}}": "of a SearXNG service", "web: {search: {provider: brave, key: abc}}": "unknown key key", "web: {serch: {}}": "serch"} {
		if _, _, err := config.Parse("symbio.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}
