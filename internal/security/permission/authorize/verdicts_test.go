package authorize

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A verdict that is remembered is the one that the rules give, for each caller, kind and name, and their number is bounded.
func TestVerdictsAreRemembered(t *testing.T) {
	rules, err := New([]Rule{{From: "role/worker", Invoke: []string{"text.*"}, Send: []string{"work"}},
		{From: "aa*", Deny: []string{"text.secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, from := range []Principal{{Node: "aa", Role: "worker"}, {Node: "bb", Role: "worker"}, {Node: "bb", Role: "guest"}, {}} {
			for _, kind := range []Kind{KindInvoke, KindSend} {
				for _, name := range []string{"text.count", "text.secret", "work", "", strings.Repeat("x", maxKnownName+1)} {
					if got, want := rules.Judge(from, kind, name), rules.judge(from, kind, name); !reflect.DeepEqual(got, want) {
						t.Errorf("%+v %s %q: %+v, want %+v", from, kind, name, got, want)
					}
				}
			}
		}
	}
	for i := range 3 * maxKnown {
		rules.Judge(Principal{Node: "bb"}, KindInvoke, fmt.Sprint(i))
	}
	if n := len(rules.known.known); n > maxKnown {
		t.Errorf("%d verdicts are kept, at most %d may", n, maxKnown)
	}
}
