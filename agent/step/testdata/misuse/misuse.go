// Package misuse holds programs that are wrong, one for each line that ends in want: the compiler must say so there.
package misuse

import (
	"context"
	"strconv"
	"strings"

	"symbio/agent/step"
)

var (
	text   = step.Transform(strconv.Itoa)    // of numbers
	upper  = step.Transform(strings.ToUpper) // of texts
	number = step.Func(func(context.Context, string) (int, error) { return 0, nil })

	chained = step.Chain2(text, upper)
	wrong1  = step.Chain2(upper, text)                                                                    // want: a text where a number goes
	wrong2  = step.Chain3(text, number, upper)                                                            // want: in the middle of a chain too
	wrong3  = step.Pipeline(text, text)                                                                   // want: a pipeline is of one type
	wrong4  = step.Pipeline(upper, number)                                                                // want: of one type again
	wrong5  = step.Race(text, upper)                                                                      // want: racers of two kinds
	wrong6  = step.Parallel(0, text, number)                                                              // want: parallel ones of two kinds
	wrong7  = step.Loop(3, func(int) bool { return true }, upper)                                         // want: the condition is of texts
	wrong8  = step.Loop(3, func(string) bool { return true }, number)                                     // want: its output is not its input
	wrong9  = step.Func(strconv.Atoi)                                                                     // want: it takes no context
	wrong10 = step.Transform(strconv.Atoi)                                                                // want: it can fail
	wrong11 = step.Gate(func(string) error { return step.Block("no") })                                   // want: what would go on?
	wrong12 = step.Generate(func(string) string { return "" })                                            // want: what is to be made?
	wrong13 = step.Capability("text.count")                                                               // want: of what, to what?
	wrong14 = step.Catch(func(context.Context, string, error) (string, error) { return "", nil }, number) // want: instead of a number
	wrong15 = step.EmitAfter("done", func(in string) any { return in }, number)                           // want: the payload is of the output

	wrong16 step.Step[string, string] = step.Map(4, upper)                // want: a map is of lists
	wrong17 step.Step[string, int]    = step.Generate[string, []int](nil) // want: what is made is a list
	wrong18 step.Step[string, []int]  = step.Parallel(0, number)          // want: so are those of a Parallel
)

func run(ctx context.Context, memory *step.Memory[int], texts step.Relay[[]string]) {
	_, _ = number.Run(ctx, 7) // want: the input is a text
	var s string
	s, _ = number.Run(ctx, "7") // want: the output is a number
	_ = s
	memory.Set("seven")               // want: it remembers numbers
	step.Append(memory.Relay(), 7)    // want: a number is no list
	step.Append(texts, 7)             // want: a list of texts
	step.Insert(texts, "a")           // want: a list is no set
	step.Add(texts, 1)                // want: nor a number
	step.With(step.Session{}, "step") // want: it is no step
	_ = step.Value[int](ctx)          // want: what holds where there is none?
	_ = step.Set[[]int]{}             // want: lists cannot be told apart
}
