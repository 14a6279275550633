package llm

import "math"

// NoWindow is the window of a model that itself sees to it that its conversation fits.
const NoWindow = math.MaxInt32

// Windower is a Model that knows its context window, such as one of a local server. Window may ask that
// server, once and for a few seconds at most; 0 means that it is not known. Wrappers of a Model implement it to
// pass the window through.
type Windower interface{ Window() int }

// WindowOf returns the context window of m in tokens; 0 means that it is not known.
func WindowOf(m Model) int {
	if w, is := m.(Windower); is {
		return w.Window()
	}
	return 0
}

// Window makes priced a Windower.
func (m pricedModel) Window() int { return WindowOf(m.Model) }

// Window makes textOnly a Windower.
func (m textOnly) Window() int { return WindowOf(m.Model) }
