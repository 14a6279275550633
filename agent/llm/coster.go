package llm

// Coster is a Model that knows beforehand what a call costs. ok is false when it does not.
type Coster interface {
	CostOf(u Usage) (cost float64, ok bool)
}

// CostOf is what a call of m with that usage costs; ok is false when nobody wrote down its price.
func CostOf(m Model, u Usage) (cost float64, ok bool) {
	if c, is := m.(Coster); is {
		return c.CostOf(u)
	}
	return 0, false
}

// CostOf makes priced a Coster.
func (m priced) CostOf(u Usage) (float64, bool) { return m.prices.Cost(m.Name(), u) }

// CostOf is the cost of the dearest of the list: each may be the one that answers.
func (f *first) CostOf(u Usage) (most float64, ok bool) {
	for _, m := range f.models {
		cost, known := CostOf(m, u)
		if !known {
			return 0, false
		}
		most = max(most, cost)
	}
	return most, len(f.models) > 0
}
