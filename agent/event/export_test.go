package event

import "iter"

// Parts returns the parts with the types that have them.
func Parts() iter.Seq2[any, []string] {
	return func(yield func(any, []string) bool) {
		for _, p := range parts {
			if !yield(p.part, p.types) {
				return
			}
		}
	}
}
