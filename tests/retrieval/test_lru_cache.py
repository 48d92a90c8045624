from knowgap.retrieval.lru_cache import LRUCache


def test_missing_keys_are_computed_once_and_the_least_recently_used_dropped():
    cache, computed = LRUCache(3), []

    def double(keys):
        computed.append(list(keys))
        return [2 * key for key in keys]

    assert cache.get([3, 1, 3], double) == [6, 2, 6]
    assert cache.get([1, 2], double) == [2, 4]
    assert cache.get([], double) == []
    assert computed == [[3, 1], [2]]
    cache.get([3], double)
    cache.get([4], double)  # drops 1
    assert cache.get([3, 2, 4, 1], double) == [6, 4, 8, 2]
    assert computed == [[3, 1], [2], [4], [1]]
    assert cache.get(range(50), double) == [2 * key for key in range(50)]  # more keys than it keeps
