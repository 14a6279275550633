package grpcpeer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"symbio/community"
)

// BenchmarkInvokeWithSchemas compares a call whose input and output are checked at both ends with the same
// call without schemas, which is its floor. Rounds of
// each take turns; figures are medians.
func BenchmarkInvokeWithSchemas(b *testing.B) {
	l := newLAN(b)
	a, other := l.onLoopback("a"), l.onLoopback("b")
	other.offers("plain", echo)
	const object = `{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":100},"tags":{"type":"array","items":{"type":"string"}}},
		"required":["id","name"],"additionalProperties":false}`
	checked := community.Capability{Name: "checked", Input: []byte(object), Output: []byte(object)}
	if err := other.Offer(checked, echo); err != nil {
		b.Fatal(err)
	}
	a.network.AddHint(hintOf(other))
	a.sees("the capability", func([]community.Member) bool { return len(a.WhoProvides("checked")) == 1 })
	for _, size := range []struct {
		name string
		tags int
	}{{"100B", 5}, {"64KiB", 8000}} {
		payload := []byte(`{"id":7,"name":"a name of some length","tags":["` + strings.Repeat(`a","b","`, size.tags) + `c"]}`)
		call := func(name string) func() error {
			return func() error {
				_, err := a.Invoke(context.Background(), community.MemberID(other.id), name, community.Signal{Data: payload})
				return err
			}
		}
		ways := []func() error{call("checked"), call("plain")}
		b.Run(size.name, func(b *testing.B) {
			took := make([][]time.Duration, len(ways))
			for round := 0; b.Loop(); round++ {
				for i := range ways {
					if round%2 == 1 {
						i = len(ways) - 1 - i
					}
					began := time.Now()
					if err := ways[i](); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			with, without := took[0][len(took[0])/2], took[1][len(took[1])/2]
			b.ReportMetric(float64(with)/float64(without), "x-floor")
			b.ReportMetric(float64(with-without)/float64(time.Microsecond), "us-more/call")
		})
	}
}

// BenchmarkOfferFunc compares a call of a Go function, whose input and output are checked, decoded and encoded, with the same call
// of a Provider, which is its floor. The bar for 64 KiB is 2.
func BenchmarkOfferFunc(b *testing.B) {
	type page struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	l := newLAN(b)
	a, other := l.onLoopback("a"), l.onLoopback("b")
	other.offers("plain", echo)
	if err := community.OfferFunc(other.Community, community.Capability{Name: "typed"},
		func(_ context.Context, p page) (page, error) { return p, nil }); err != nil {
		b.Fatal(err)
	}
	a.network.AddHint(hintOf(other))
	a.sees("the capability", func([]community.Member) bool { return len(a.WhoProvides("typed")) == 1 })
	for _, size := range []int{100, 64 << 10} {
		payload := []byte(`{"title":"a page","text":"` + strings.Repeat("some words of it ", size/17) + `"}`)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			var took [2][]time.Duration
			for b.Loop() {
				for i, name := range []string{"typed", "plain"} {
					began := time.Now()
					if _, err := a.Invoke(b.Context(), community.MemberID(other.id), name, community.Signal{Data: payload}); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "x-floor")
		})
	}
}
