package discovery_test

import (
	"strings"
	"testing"

	"symbio/discovery"
)

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
