package config

import (
	"strings"
)

// Windows are how many tokens models can be given, by their names, such as "openai:gpt-x"; one that ends in * is for all
// whose names begin like it, and the longest counts.
type Windows map[string]int

// Of is that of a model, or of the smallest of a list; 0 = not said.
func (w Windows) Of(models string) (least int) {
	for model := range strings.SplitSeq(models, ",") {
		n, ok := w[model]
		longest := -1
		for name, of := range w {
			if prefix, pattern := strings.CutSuffix(name, "*"); !ok && pattern && strings.HasPrefix(model, prefix) && len(prefix) > longest {
				n, longest = of, len(prefix)
			}
		}
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// leastWindow is less than any model takes: a system prompt and the descriptions of the tools have to fit, and an answer.
const leastWindow = 4096

func (w Windows) check(bad func(format string, args ...any)) {
	for name, n := range w {
		if i := strings.Index(name, "*"); name == "" || i >= 0 && i < len(name)-1 {
			bad("windows: %q: the name of a model, or the beginning of one and *", name)
		}
		if n < leastWindow {
			bad("windows: %q: %d tokens are less than the %d that any model takes", name, n, leastWindow)
		}
	}
}
