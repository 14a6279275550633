package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"symbio/agent/node/config"
)

var update = flag.Bool("update", false, "write the generated part of docs/configuration.md anew")

func TestConfigurationPageHasTheReference(t *testing.T) {
	const path, marker = "../../docs/configuration.md", "-update -->\n\n"
	keys, err := config.Reference()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := config.WriteReference(&want, keys); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), "\r\n", "\n")
	byHand, generated, ok := strings.Cut(text, marker)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", path, marker)
	}
	if *update {
		if err := os.WriteFile(path, []byte(byHand+marker+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if generated != want.String() {
		t.Errorf("%s is not what symbio config reference prints; run this test with -update", path)
	}
}
