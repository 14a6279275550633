package llm

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
)

// Price is what a model's tokens cost, each for a million of them, in the currency of who writes it down.
type Price struct {
	Input  float64 `yaml:"input" json:"input"`
	Output float64 `yaml:"output" json:"output"`
	// CacheRead and CacheWrite are for input that is read from the provider's cache, and written to it. Default: as
	// any other input.
	CacheRead  *float64 `yaml:"cache_read" json:"cache_read,omitempty"`
	CacheWrite *float64 `yaml:"cache_write" json:"cache_write,omitempty"`
}

// Prices are by the names of models, such as "openai:gpt-x"; one that ends in * is for all whose names begin like it,
// and the longest counts. There are none built in: those would be wrong before anybody noticed.
type Prices map[string]Price

// Check returns what is wrong with them.
func (p Prices) Check() error {
	for name, price := range p {
		for _, n := range []*float64{&price.Input, &price.Output, price.CacheRead, price.CacheWrite} {
			if n != nil && !(*n >= 0 && *n < math.MaxInt32) { // what is not a number is neither
				return fmt.Errorf("%q: a price is a number of at least 0, for a million tokens", name)
			}
		}
		if i := strings.Index(name, "*"); i >= 0 && i < len(name)-1 || name == "" {
			return fmt.Errorf("%q: the name of a model, or the beginning of one and *", name)
		}
	}
	return nil
}

// of returns a model's price.
func (p Prices) of(model string) (price Price, ok bool) {
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

// Cost is what a call of that model cost; ok is false when nobody wrote down its price.
func (p Prices) Cost(model string, u Usage) (cost float64, ok bool) {
	price, ok := p.of(model)
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

// Model returns m with the cost of each answer in its usage. A cost that m itself knows stays, unless there is a
// price here.
func (p Prices) Model(m Model) Model {
	if _, ok := p.of(m.Name()); !ok {
		return m
	}
	return priced{m, p}
}

type priced struct {
	Model
	prices Prices
}

func (m priced) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
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
