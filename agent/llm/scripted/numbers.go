package scripted

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

var errOverflow = errors.New("the number is too large")

// two calls ints when both values are whole numbers, else floats.
func two(a, b any, ints func(x, y int64) (any, error), floats func(x, y float64) float64) (any, error) {
	a, err := number(a)
	if err != nil {
		return nil, err
	}
	if b, err = number(b); err != nil {
		return nil, err
	}
	x, xok := a.(int64)
	y, yok := b.(int64)
	if xok && yok {
		return ints(x, y)
	}
	f, _ := float(a)
	g, _ := float(b)
	n := floats(f, g)
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, errOverflow
	}
	return n, nil
}

func add(a any, more ...any) (any, error) {
	total, err := number(a)
	for _, b := range more {
		if err != nil {
			return nil, err
		}
		total, err = two(total, b, func(x, y int64) (any, error) {
			if s := x + y; (s > x) == (y > 0) {
				return s, nil
			}
			return nil, errOverflow
		}, func(x, y float64) float64 { return x + y })
	}
	return total, err
}

func sub(a, b any) (any, error) {
	return two(a, b, func(x, y int64) (any, error) {
		if d := x - y; (d < x) == (y > 0) {
			return d, nil
		}
		return nil, errOverflow
	}, func(x, y float64) float64 { return x - y })
}

func mul(a any, more ...any) (any, error) {
	total, err := number(a)
	for _, b := range more {
		if err != nil {
			return nil, err
		}
		total, err = two(total, b, func(x, y int64) (any, error) {
			p := x * y
			if x != 0 && (p/x != y || x == -1 && y == math.MinInt64) {
				return nil, errOverflow
			}
			return p, nil
		}, func(x, y float64) float64 { return x * y })
	}
	return total, err
}

func div(a, b any) (any, error) {
	if f, err := float(b); err != nil || f == 0 {
		return nil, fmt.Errorf("division by %s", shortly(b))
	}
	return two(a, b, func(x, y int64) (any, error) {
		if x == math.MinInt64 && y == -1 {
			return nil, errOverflow
		}
		return x / y, nil
	}, func(x, y float64) float64 { return x / y })
}

func mod(a, b any) (any, error) {
	x, err := whole(a)
	if err != nil {
		return nil, err
	}
	y, err := whole(b)
	if err != nil || y == 0 {
		return nil, fmt.Errorf("division by %s", shortly(b))
	}
	if y == -1 {
		return int64(0), nil
	}
	return x % y, nil
}

func least(values ...any) (any, error)    { return extreme(-1, values) }
func greatest(values ...any) (any, error) { return extreme(1, values) }

// extreme is the least or greatest of the numbers, or of the one list, that it was given.
func extreme(sign int, values []any) (any, error) {
	if len(values) == 1 {
		if l, ok := values[0].([]any); ok {
			values = l
		}
	}
	var best any
	for _, v := range values {
		n, err := number(v)
		if err != nil {
			return nil, err
		}
		if best == nil || compare(n, best) == sign {
			best = n
		}
	}
	if best == nil {
		return nil, errors.New("no numbers")
	}
	return best, nil
}

func sum(v any) (any, error) {
	l, err := items(v)
	if err != nil {
		return nil, err
	}
	return add(int64(0), l...)
}

// round rounds to so many decimals; with none the result is whole.
func round(decimals int, v any) (any, error) {
	if decimals < 0 || decimals > 15 {
		return nil, fmt.Errorf("round takes 0 to 15 decimals, got %d", decimals)
	}
	f, err := float(v)
	if err != nil {
		return nil, err
	}
	if decimals == 0 {
		return whole(math.Round(f))
	}
	p := math.Pow10(decimals)
	if rounded := math.Round(f*p) / p; !math.IsInf(rounded, 0) {
		return rounded, nil
	}
	return f, nil
}

func defaultTo(instead, v any) any {
	if empty(v) {
		return instead
	}
	return v
}

func length(v any) (int, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case string:
		return len(v), nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	}
	return 0, fmt.Errorf("a %s has no length", strings.TrimPrefix(fmt.Sprintf("%T", v), "*"))
}
