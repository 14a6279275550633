package main

func Example() {
	main()
	// Unordered output:
	// event summed 12
	// 12 words in all <nil>
	// event summed 12
	// 12 words in all <nil>
}
