Counter("aab").most_common(1)
