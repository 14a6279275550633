package llm

// Coster is a Model that knows the cost of a call beforehand. ok is false if it does not. Wrappers
// of a Model implement it to pass the price through.
type Coster interface {
	CostOf(u Usage) (cost float64, ok bool)
}

// CostOf returns the cost of a call of m with that usage; ok is false if no price is configured.
func CostOf(m Model, u Usage) (cost float64, ok bool) {
	if c, is := m.(Coster); is {
		return c.CostOf(u)
	}
	return 0, false
}

// CostOf makes priced a Coster.
func (m pricedModel) CostOf(u Usage) (float64, bool) { return m.prices.Cost(m.Name(), u) }
