// Command modelcatalog prints the table of package internal/agent/llm/catalog from the data of the module
// charm.land/catwalk.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/catwalk/pkg/catwalk"
	"charm.land/catwalk/pkg/embedded"
)

const module = "charm.land/catwalk"

// providers are the ones that the product can reach, of the many that only sell again what these have.
var providers = []catwalk.InferenceProvider{
	"anthropic", "openai", "gemini", "deepseek", "xai", "groq", "moonshot", "zai", "minimax", "cerebras", "fireworks", "huggingface", "openrouter",
}

// host is where providers without an address in the data answer.
var host = map[catwalk.InferenceProvider]string{"anthropic": "anthropic", "openai": "openai", "gemini": "generativelanguage.googleapis.com"}

// dated matches the date at the end of a model's name.
var dated = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

func main() {
	out, err := exec.Command("go", "list", "-m", "-json", module).Output()
	if err != nil {
		log.Fatal(err)
	}
	var source struct {
		Version string
		Time    time.Time
	}
	if err := json.Unmarshal(out, &source); err != nil {
		log.Fatal(err)
	}
	lines := map[string]string{}
	for _, p := range embedded.GetAll() {
		if !slices.Contains(providers, p.ID) {
			continue
		}
		at := host[p.ID]
		if at == "" {
			u, err := url.Parse(p.APIEndpoint)
			if err != nil || u.Hostname() == "" {
				log.Fatalf("%s has no address: %q", p.ID, p.APIEndpoint)
			}
			at = u.Hostname()
		}
		for _, m := range p.Models {
			lines[at+"\t"+m.ID] = figures(m)
		}
	}
	for key, line := range lines {
		if short := dated.ReplaceAllString(key, ""); lines[short] == "" {
			lines[short] = line
		}
	}
	fmt.Printf("%s %s, %s\n", module, source.Version, source.Time.UTC().Format(time.DateOnly))
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Println(key + "\t" + lines[key])
	}
}

// figures returns the window, the prices of input, output, cached input and input written to the cache,
// and the abilities. The two prices of the cache are in either field, depending on the provider: the one
// below the price of input is that of reading, the one from there up to twice as much that of writing.
func figures(m catwalk.Model) string {
	var read, write float64
	for _, c := range []float64{m.CostPer1MOutCached, m.CostPer1MInCached} {
		switch {
		case c <= 0 || c > 2*m.CostPer1MIn:
		case c < m.CostPer1MIn:
			read = cmp.Or(min(read, c), c)
		default:
			write = c
		}
	}
	can := ""
	if m.SupportsImages {
		can += "i"
	}
	if m.CanReason {
		can += "t"
	}
	fields := []string{strconv.FormatInt(m.ContextWindow, 10)}
	for _, price := range []float64{m.CostPer1MIn, m.CostPer1MOut, read, write} {
		fields = append(fields, strconv.FormatFloat(price, 'f', -1, 64))
	}
	return strings.Join(append(fields, can), "\t")
}
