package config

import "strings"

// ContextWindows maps names of models, such as "openai:gpt-x", to the size of
// their context window in tokens. A name that ends in * is a prefix. An exact
// name wins over a prefix, and the longest prefix wins over shorter ones.
type ContextWindows map[string]int

// Of returns the window of a model. For several names with commas between them
// it returns the smallest window, because the conversation has to fit whichever
// model answers. It returns 0 if none is configured.
func (w ContextWindows) Of(models string) (smallest int) {
	for model := range strings.SplitSeq(models, ",") {
		n, ok := w[model]
		longest := -1
		for name, of := range w {
			if prefix, pattern := strings.CutSuffix(name, "*"); !ok && pattern && strings.HasPrefix(model, prefix) && len(prefix) > longest {
				n, longest = of, len(prefix)
			}
		}
		if n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// minContextWindow is the smallest window that is accepted, in tokens. The
// system prompt, the descriptions of the tools and an answer have to fit; a
// smaller number is most likely a number in thousands.
const minContextWindow = 4096

// check reports names and sizes that cannot work.
func (w ContextWindows) check(bad func(format string, args ...any)) {
	for name, n := range w {
		if i := strings.Index(name, "*"); name == "" || i >= 0 && i < len(name)-1 {
			bad("context_windows: %q: write the name of a model, or the beginning of one followed by *", name)
		}
		if n < minContextWindow {
			bad("context_windows: %q: %d tokens are less than the %d that an agent needs; write the number of tokens, not of thousands", name, n, minContextWindow)
		}
	}
}
