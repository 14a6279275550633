package discovery_test

import (
	"strings"
	"testing"

	"symbio/discovery"
)

func TestParseURLFillsInThePath(t *testing.T) {
	for text, want := range map[string]string{"ws://kitchen": "ws://kitchen/", "wss://kitchen:8443/a": "wss://kitchen:8443/a", "kitchen:7946": "", "https://kitchen/": ""} {
		u, err := discovery.ParseURL(text)
		if (err != nil) != (want == "") || err == nil && u.String() != want {
			t.Errorf("ParseURL(%q) = %v, %v, want %q", text, u, err, want)
		}
	}
	if discovery.IsURL("kitchen:7946") || !discovery.IsURL("wss://kitchen") {
		t.Error("an address is a URL, or a URL an address")
	}
}

func TestIsHostNameAcceptsDNSNames(t *testing.T) {
	label := strings.Repeat("a", 63)
	for name, want := range map[string]bool{
		"kitchen": true, "kitchen.example.": true, "_symbio._tcp.example": true, "10.0.0.7": true, "xn--bcher-kva.example": true,
		label: true, label + "a": false, strings.Repeat("a.", 126) + "a": true, strings.Repeat("a.", 127) + "a": false,
		"": false, ".": false, "a..b": false, ".a": false, "a b": false, "a\x1b": false, "bücher": false, "a/b": false, "a:b": false,
	} {
		if got := discovery.IsHostName(name); got != want {
			t.Errorf("IsHostName(%q) = %v, want %v", name, got, want)
		}
	}
}
