// Package lazyregexp compiles regular expressions when they are first used. A command of symbio uses few of the
// patterns of all packages, and should not wait for the others when it starts. It imports nothing of ours, so that
// every package can import it.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that returns the compiled pattern. Its first call compiles it, and panics if expr is no
// regular expression. It may be called from many goroutines.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
