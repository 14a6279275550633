package step_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/agent/step"
)

func TestMemoryIsReadAndWrittenThroughItsRelay(t *testing.T) {
	m := step.NewMemory(1)
	r := m.Relay()
	r.Set(10)
	if got := m.Get(); got != 10 {
		t.Errorf("after Set: %d", got)
	}
	if got := r.Update(func(n int) int { return n + 1 }); got != 11 || m.Get() != 11 {
		t.Errorf("after Update: %d, %d", got, m.Get())
	}
	m.Set(3)
	if got := m.Update(func(n int) int { return 2 * n }); got != 6 || r.Get() != 6 {
		t.Errorf("the memory's own: %d, %d", got, r.Get())
	}
	var zero step.Memory[string]
	if got := zero.Get(); got != "" {
		t.Errorf("the zero memory: %q", got)
	}
}

func TestRelaysAreDerived(t *testing.T) {
	m := step.NewMemory(4)
	doubled := step.MapRelay(m.Relay(), func(n int) int { return 2 * n }, func(n int) int { return n / 2 })
	if got := doubled.Get(); got != 8 {
		t.Errorf("doubled: %d", got)
	}
	doubled.Set(20)
	step.Add(doubled, 2)
	if got := m.Get(); got != 11 {
		t.Errorf("written through: %d, want 11", got)
	}
	text := step.ReadOnly(m.Relay(), strconv.Itoa)
	text.Set("99")
	if got := text.Update(func(string) string { return "lost" }); text.Get() != "11" || got != "lost" {
		t.Errorf("read only: %q", text.Get())
	}
	constant := step.Constant(42)
	constant.Set(1)
	if step.Add(constant, 1); constant.Get() != 42 {
		t.Errorf("constant: %d", constant.Get())
	}
}

func TestZeroRelayIsTheConstantZero(t *testing.T) {
	var n step.Relay[int]
	n.Set(1)
	if got := step.Add(n, 2); got != 2 || n.Get() != 0 {
		t.Errorf("got %d, then %d", got, n.Get())
	}
	var s step.Relay[step.Set[int]]
	if step.Insert(s, 1) || step.Contains(s, 1) {
		t.Error("a set that keeps something")
	}
	var l step.Relay[[]int]
	if step.Append(l, 1); l.Get() != nil {
		t.Error("a list that keeps something")
	}
	if got := step.MapRelay(n, strconv.Itoa, func(string) int { return 1 }).Get(); got != "0" {
		t.Errorf("mapped: %q", got)
	}
}

func TestMemorySetInsertsContainsAndUnites(t *testing.T) {
	var m step.Memory[step.Set[string]]
	r := m.Relay()
	got := []bool{step.Insert(r, "a"), step.Insert(r, "a"), step.Contains(r, "a"), step.Contains(r, "b")}
	if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" {
		t.Error(diff)
	}
	if n := step.Union(r, step.Set[string]{"a": {}, "b": {}, "c": {}}); n != 2 || len(m.Get()) != 3 {
		t.Errorf("Union added %d, to %v", n, m.Get())
	}
}

func TestMemoryListAppends(t *testing.T) {
	m := step.NewMemory([]string{"a"})
	step.Append(m.Relay(), "b", "c")
	if diff := cmp.Diff([]string{"a", "b", "c"}, m.Get()); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryNumberCountsUpAndDown(t *testing.T) {
	m := step.NewMemory(uint8(3))
	r := m.Relay()
	if step.Add(r, 5) != 8 || step.Add(r, 1) != 9 || step.Add(r, ^uint8(0)) != 8 || m.Get() != 8 {
		t.Errorf("got %d, want 8", m.Get())
	}
	n := step.NewMemory(1)
	if step.Add(n.Relay(), 1); step.Add(n.Relay(), -1) != 1 {
		t.Errorf("got %d, want 1", n.Get())
	}
}

// What somebody was given stays as it was, whatever is done to the memory: the same operations on plain copies are the
// model.
func TestMemoryAnswerStaysUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list step.Memory[[]int]
		var set step.Memory[step.Set[int]]
		var given, want [][]int
		var sets, wantSets []step.Set[int]
		var plain []int
		plainSet := step.Set[int]{}
		for i := range rapid.IntRange(1, 30).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0:
				given, want = append(given, list.Get()), append(want, slices.Clone(plain))
			case 1, 2:
				step.Append(list.Relay(), i)
				plain = append(plain, i)
			case 3:
				if len(given) > 0 {
					old := given[rapid.IntRange(0, len(given)-1).Draw(t, "old")]
					old = old[:len(old)/2]
					list.Set(old)
					plain = slices.Clone(old)
				}
			case 4:
				sets, wantSets = append(sets, set.Get()), append(wantSets, step.Set[int]{})
				for k := range plainSet {
					wantSets[len(wantSets)-1][k] = struct{}{}
				}
			case 5:
				step.Insert(set.Relay(), i%7)
				plainSet[i%7] = struct{}{}
			}
		}
		for i := range given {
			if !slices.Equal(given[i], want[i]) {
				t.Errorf("list %d: %v, was %v", i, given[i], want[i])
			}
		}
		for i := range sets {
			if fmt.Sprint(len(sets[i]), sets[i]) != fmt.Sprint(len(wantSets[i]), wantSets[i]) {
				t.Errorf("set %d: %v, was %v", i, sets[i], wantSets[i])
			}
		}
		if !slices.Equal(list.Get(), plain) || fmt.Sprint(set.Get()) != fmt.Sprint(plainSet) {
			t.Errorf("at the end: %v and %v, want %v and %v", list.Get(), set.Get(), plain, plainSet)
		}
	})
}

func TestMemoryUnderConcurrentUpdatesLosesNone(t *testing.T) {
	const workers, each = 16, 500
	var number step.Memory[int]
	var list step.Memory[[]int]
	var set step.Memory[step.Set[int]]
	half := step.MapRelay(number.Relay(), func(n int) string { return strconv.Itoa(n) },
		func(s string) int { n, _ := strconv.Atoi(s); return n })
	var firsts [workers]int
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				step.Add(number.Relay(), 1)
				half.Update(func(s string) string { n, _ := strconv.Atoi(s); return strconv.Itoa(n + 1) })
				step.Append(list.Relay(), i)
				if step.Insert(set.Relay(), i) {
					firsts[w]++
				}
				if !step.Contains(set.Relay(), i) {
					t.Errorf("%d was inserted and is not there", i)
				}
				if i%25 == 0 { // what was given is read while others write
					for range set.Get() {
						break
					}
					for range list.Get() {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range firsts {
		total += n
	}
	if number.Get() != 2*workers*each || len(list.Get()) != workers*each || len(set.Get()) != each || total != each {
		t.Errorf("got %d, %d appended, %d in the set, %d said to be the first", number.Get(), len(list.Get()), len(set.Get()), total)
	}
}
