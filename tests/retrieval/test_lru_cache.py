from concurrent.futures import ThreadPoolExecutor

from knowgap.retrieval.lru_cache import LRUCache


def test_computes_what_is_unknown_once():
    asked = []

    def double(keys):
        asked.append(list(keys))
        return [2 * key for key in keys]

    memory = LRUCache(10)
    assert memory.get([3, 1, 3], double) == [6, 2, 6]
    assert memory.get([1, 2], double) == [2, 4]
    assert memory.get([], double) == []
    assert asked == [[3, 1], [2]]


def test_forgets_the_least_recently_used():
    asked = []

    def note(keys):
        asked.extend(keys)
        return keys

    memory = LRUCache(2)
    memory.get(["a", "b"], note)
    memory.get(["a"], note)
    memory.get(["c"], note)
    memory.get(["a", "c"], note)
    assert asked == ["a", "b", "c"]
    memory.get(["b"], note)
    assert asked == ["a", "b", "c", "b"]


def test_more_keys_than_it_keeps():
    assert LRUCache(3).get(range(50), list) == list(range(50))


def test_all_threads_see_one_value():
    memory = LRUCache(100)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: memory.get(range(20), lambda keys: [object() for _ in keys]), range(40)))
    assert all(result == memory.get(range(20), list) for result in results)
