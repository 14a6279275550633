package llm

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
)

// Price is the price of a million tokens of a model, in the currency of the configuration.
type Price struct {
	Input  float64 `yaml:"input" json:"input"`
	Output float64 `yaml:"output" json:"output"`
	// CacheRead and CacheWrite are the prices of input that is read from and written to the
	// provider's cache. Default: the price of Input.
	CacheRead  *float64 `yaml:"cache_read" json:"cache_read,omitempty"`
	CacheWrite *float64 `yaml:"cache_write" json:"cache_write,omitempty"`
}

// Prices maps names of models, such as "openai:gpt-x", to prices. A name that ends in * is a
// prefix; the longest prefix wins. Package catalog has prices of its date for models without one.
type Prices map[string]Price

// Check returns an error that names an invalid price or pattern.
func (p Prices) Check() error {
	for name, price := range p {
		for _, n := range []*float64{&price.Input, &price.Output, price.CacheRead, price.CacheWrite} {
			if n != nil && !(*n >= 0 && *n < math.MaxInt32) { // what is not a number is neither
				return fmt.Errorf("%q: write a price of 0 or more for a million tokens", name)
			}
		}
		if i := strings.Index(name, "*"); i >= 0 && i < len(name)-1 || name == "" {
			return fmt.Errorf("%q: the name of a model, or the beginning of one and *", name)
		}
	}
	return nil
}

// Of returns a model's price: the one for its exact name, else of the longest matching prefix.
func (p Prices) Of(model string) (price Price, ok bool) {
	if price, ok = p[model]; ok {
		return price, true
	}
	longest := -1
	for name, of := range p {
		if prefix, pattern := strings.CutSuffix(name, "*"); pattern && strings.HasPrefix(model, prefix) && len(prefix) > longest {
			price, ok, longest = of, true, len(prefix)
		}
	}
	return price, ok
}

// Cost returns the cost of a call of the named model; ok is false if it has no price.
func (p Prices) Cost(model string, u Usage) (cost float64, ok bool) {
	price, ok := p.Of(model)
	if !ok {
		return 0, false
	}
	read, write := price.Input, price.Input
	if price.CacheRead != nil {
		read = *price.CacheRead
	}
	if price.CacheWrite != nil {
		write = *price.CacheWrite
	}
	plain := max(0, u.Input-u.CacheRead-u.CacheWrite)
	return (float64(plain)*price.Input + float64(u.CacheRead)*read + float64(u.CacheWrite)*write + float64(u.Output)*price.Output) / 1e6, true
}

// Model returns a model that adds the cost to the usage of each answer. Without a price it returns
// m, whose own cost stays.
func (p Prices) Model(m Model) Model {
	if _, ok := p.Of(m.Name()); !ok {
		return m
	}
	return pricedModel{m, p}
}

// pricedModel is a Model with a price. It replaces a cost that the model itself reports.
type pricedModel struct {
	Model
	prices Prices
}

func (m pricedModel) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for c, err := range m.Model.Stream(ctx, r) {
			if c.Usage != nil {
				u := *c.Usage
				if cost, ok := m.prices.Cost(m.Name(), u); ok {
					u.Cost = &cost
				}
				c.Usage = &u
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
